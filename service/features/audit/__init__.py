"""Audits: what is wrong with the images and labels of a collection, and images in quarantine."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="audit",
    routes=("service.features.audit.routes:blueprint",),
    access="service.features.audit.routes:RULES",
    menu=("service.features.audit.routes:MENU_PAGE",),
    package="service.features.audit",
    pages={"quality": ("page.css", "card.css", "quality/quality.css", "quality/quality.js")},
    jobs={"audit": "service.features.audit.job:AUDIT"},
)
