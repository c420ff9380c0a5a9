"""Saved cases, and cohorts."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="saved",
    routes=(
        "service.features.saved.cases.routes:blueprint",
        "service.features.saved.cohorts.routes:blueprint",
        "service.features.saved.page:blueprint",
    ),
    access="service.features.saved.page:RULES",
    menu=("service.features.saved.page:MENU_PAGE",),
    package="service.features.saved",
    pages={
        "saved": (
            "page.css",
            "card.css",
            "viewer/viewer.css",
            "viewer/reading.css",
            "saved/saved.css",
            "saved/saved.js",
        )
    },
    page_modules={"search": ("saved_search.js",), "browse": ("cohorts/chosen_start.js",)},
    tables=(
        "service.features.saved.cases.tables",
        "service.features.saved.cohorts.tables",
    ),
    eraser="service.features.saved.erase:erase_saved",
    mentions="service.features.saved.erase:mentions_in_saved",
)
