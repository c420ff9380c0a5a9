"""Why an image is similar to a query."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="explain",
    routes=("service.features.explain.routes:blueprint",),
    access="service.features.explain.access:RULES",
)
