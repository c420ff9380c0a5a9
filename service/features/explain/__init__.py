"""Why an image is similar to a query."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="explain",
    routes=("service.features.explain.routes:blueprint",),
    access="service.features.explain.routes:RULES",
    package="service.features.explain",
    page_modules={"search": ("explain/explain.css", "explain/explain.js")},
    page_facts="service.features.explain.routes:explain_facts",
)
