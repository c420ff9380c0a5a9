"""Grades of an image by graded ones."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="grade",
)
