"""All images of a collection in two dimensions."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="map",
    routes=(
        "service.features.map.routes:blueprint",
        "service.features.map.page:blueprint",
    ),
    access="service.features.map.access:RULES",
    menu=("service.features.map.page:MENU_PAGE",),
    jobs={"map": "service.features.map.job_kind:MAP"},
)
