"""Saved cases, and cohorts."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="saved",
    tables=(
        "service.features.saved.cases.tables",
        "service.features.saved.cohorts.tables",
    ),
    eraser="service.features.saved.erase:erase_saved",
)
