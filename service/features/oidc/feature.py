"""Login of the hospital's users."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="oidc",
    routes=("service.features.oidc.routes:blueprint",),
    access="service.features.oidc.access:RULES",
)
