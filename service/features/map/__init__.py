"""All images of a collection in two dimensions."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="map",
    routes=("service.features.map.routes:blueprint",),
    access="service.features.map.routes:RULES",
    package="service.features.map",
    page_modules={"search": ("map_link.js",), "browse": ("map/map.css", "map/map.js")},
    page_facts="service.features.map.routes:map_facts",
    jobs={"map": "service.features.map.job:MAP"},
)
