"""Searches that ask other services too."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="federation",
    routes=("service.features.federation.routes:blueprint",),
    access="service.features.federation.routes:RULES",
    package="service.features.federation",
    page_modules={"search": ("other_sites.js",)},
    page_facts="service.features.federation.search_hook:federation_facts",
    search_hook="service.features.federation.search_hook:HOOK",
)
