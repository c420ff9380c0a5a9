"""Similar studies for viewers, and earlier studies of a patient."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="similar",
)
