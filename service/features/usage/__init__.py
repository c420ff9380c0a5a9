"""The log of searches and what people did with their answers."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="usage",
    routes=("service.features.usage.routes:blueprint",),
    access="service.features.usage.routes:RULES",
    package="service.features.usage",
    page_modules={"search": ("usage.js",)},
    page_facts="service.features.usage.routes:usage_facts",
    install="service.features.usage.routes:install_usage",
    search_hook="service.features.usage.routes:HOOK",
    tables=("service.features.usage.tables",),
    eraser="service.features.usage.tables:erase_usage",
    mentions="service.features.usage.tables:images_in_usage",
)
