"""All images of a collection in two dimensions."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="map",
)
