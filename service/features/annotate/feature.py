"""Annotation studies, and studies of readers."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="annotate",
    routes=("service.features.annotate.reader_study.routes:blueprint",),
    access="service.features.annotate.reader_study.routes:RULES",
    menu=("service.features.annotate.reader_study.routes:MENU_PAGE",),
    package="service.features.annotate.reader_study",
    tables=("service.features.annotate.reader_study.tables",),
    eraser="service.features.annotate.reader_study.tables:erase_from_studies",
)
