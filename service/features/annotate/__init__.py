"""Annotation studies, and studies of readers."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="annotate",
    routes=(
        "service.features.annotate.reader_study.routes:blueprint",
        "service.features.annotate.annotation_pages:blueprint",
        "service.features.annotate.judging_api:blueprint",
        "service.features.annotate.review_api:blueprint",
    ),
    access="service.features.annotate.annotation_pages:RULES",
    menu=("service.features.annotate.annotation_pages:MENU_PAGE",),
    package="service.features.annotate",
    install="service.features.annotate.annotation_studies:install_annotation",
    check_settings="service.features.annotate.annotation_studies:check_annotation_studies",
    tables=("service.features.annotate.reader_study.tables",),
    eraser="service.features.annotate.reader_study.tables:erase_from_studies",
    mentions="service.features.annotate.study_files:images_in_all_studies",
)
