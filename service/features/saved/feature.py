"""Saved cases, and cohorts."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="saved",
    eraser="service.features.saved.erase:erase_saved",
)
