"""Searches that ask other services too."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="federation",
    routes=("service.features.federation.routes:blueprint",),
    access="service.features.federation.routes:RULES",
    search_hook="service.features.federation.search_hook:HOOK",
)
