"""Login of the hospital's users."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="oidc",
    package="service.features.oidc",
    routes=("service.features.oidc.routes:blueprint",),
    install="service.features.oidc.routes:install_oidc",
    check_settings="service.features.oidc.oidc_client:check_settings",
    access="service.features.oidc.routes:RULES",
)
