"""Audits: what is wrong with the images and labels of a collection, and images in quarantine."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="audit",
    routes=("service.features.audit.routes:blueprint",),
    access="service.features.audit.routes:RULES",
    menu=(
        "service.features.audit.routes:AUDIT_MENU_PAGE",
        "service.features.audit.routes:QUARANTINE_MENU_PAGE",
    ),
    package="service.features.audit",
    jobs={"audit": "service.features.audit.job:AUDIT"},
)
