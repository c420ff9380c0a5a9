"""Why an image is similar to a query."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="explain",
)
