"""Searches that ask other services too."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="federation",
)
