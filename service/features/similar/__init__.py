"""Similar studies for viewers, and earlier studies of a patient."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="similar",
    routes=(
        "service.features.similar.routes:blueprint",
        "service.features.similar.viewer_embed:blueprint",
        "service.features.similar.prior_routes:blueprint",
    ),
    access="service.features.similar.routes:RULES",
    package="service.features.similar",
    page_modules={"search": ("priors.js",)},
)
