"""Grades of an image by graded ones."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="grade",
    routes=("service.features.grade.routes:blueprint",),
    access="service.features.grade.routes:RULES",
    package="service.features.grade",
    page_modules={"search": ("grade.js",)},
    page_facts="service.features.grade.routes:grade_facts",
    search_hook="service.features.grade.routes:HOOK",
)
