"""All images of a collection in two dimensions."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="map",
    routes=(
        "service.features.map.routes:blueprint",
        "service.features.map.page:blueprint",
    ),
    access="service.features.map.routes:RULES",
    menu=("service.features.map.page:MENU_PAGE",),
    package="service.features.map",
    page_modules={"search": ("map_link.js",)},
    jobs={"map": "service.features.map.job:MAP"},
)
