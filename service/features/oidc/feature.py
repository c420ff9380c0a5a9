"""Login of the hospital's users."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="oidc",
)
