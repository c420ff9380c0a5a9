"""Audits: what is wrong with the images and labels of a collection, and images in quarantine."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="audit",
    routes=(
        "service.features.audit.routes:blueprint",
        "service.features.audit.page:blueprint",
        "service.features.audit.quarantine.routes:blueprint",
        "service.features.audit.quarantine.page:blueprint",
    ),
    access="service.features.audit.access:RULES",
    menu=("service.features.audit.page:MENU_PAGE", "service.features.audit.quarantine.page:MENU_PAGE"),
    package="service.features.audit",
    jobs={"audit": "service.features.audit.job_kind:AUDIT"},
)
