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
    menu=(
        "service.features.saved.page:CASES_PAGE",
        "service.features.saved.page:COHORTS_PAGE",
    ),
    package="service.features.saved",
    page_parts={
        "search.head": "saved_head.html",
        "search.actions": "save_case_button.html",
        "search.judgements": "find_all_button.html",
        "search.dialogs": "case_dialog.html",
        "gallery.head": "gallery_head.html",
        "gallery.selection": "find_all_button.html",
    },
    tables=(
        "service.features.saved.cases.tables",
        "service.features.saved.cohorts.tables",
    ),
    eraser="service.features.saved.erase:erase_saved",
)
