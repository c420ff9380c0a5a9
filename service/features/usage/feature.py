"""The log of searches and what people did with their answers."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="usage",
    routes=("service.features.usage.routes:blueprint",),
    access="service.features.usage.routes:RULES",
    package="service.features.usage",
    page_parts={"search.head": "usage_head.html", "search.questions": "usage_question.html"},
    install="service.features.usage.routes:install_usage",
    search_hook="service.features.usage.routes:HOOK",
    tables=("service.features.usage.tables",),
    eraser="service.features.usage.tables:erase_usage",
)
