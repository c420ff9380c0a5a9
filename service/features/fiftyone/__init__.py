"""Export for FiftyOne."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="fiftyone",
)
