"""Hits as a DICOM structured report."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="report",
)
