"""The log of searches and what people did with their answers."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="usage",
    eraser="service.features.usage.erase:erase_usage",
)
