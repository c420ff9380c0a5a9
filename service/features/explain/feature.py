"""Why an image is similar to a query."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="explain",
    routes=("service.features.explain.routes:blueprint",),
    access="service.features.explain.routes:RULES",
    package="service.features.explain",
    page_parts={
        "search.head": "explain_head.html",
        "search.switches": "explain_button.html",
        "search.hints": "explain_hint.html",
        "search.keys": "explain_key.html",
    },
)
