"""All images of a collection in two dimensions."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="map",
    jobs={"map": "service.features.map.job_kind:MAP"},
)
