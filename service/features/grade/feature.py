"""Grades of an image by graded ones."""

from cbir.system.features import Feature

FEATURE = Feature(
    name="grade",
    routes=("service.features.grade.routes:blueprint",),
    access="service.features.grade.routes:RULES",
    package="service.features.grade",
    search_hook="service.features.grade.search_hook:HOOK",
    page_parts={"search.head": "grade_head.html", "search.results": "grading.html"},
)
