"""Grades of a study as a label of the collection's images."""

from collections.abc import Sequence
from typing import Literal

from cbir.errors import InvalidInput
from cbir.learn.severity.stored_ranker import LABEL as SEVERITY
from cbir.store import Collection
from service.features.annotate.study.study_results import ImageResult

GradeSource = Literal["given", "predicted"]


def write_grades(
    collection: Collection,
    key: str,
    results: Sequence[ImageResult],
    source: GradeSource,
    who: str = "command line",
) -> tuple[int, int]:
    """Label images with their grade, in one transaction that the history of the collection names.

    Parameters
    ----------
    collection : Collection
    key : str
        Key of the label.
    results : sequence of ImageResult
    source : "given" or "predicted"
        Grades that people gave, or those that follow from the severity.
    who : str
        Author in the history.

    Returns
    -------
    (int, int)
        Numbers of images with such a grade, and of changed labels.

    Raises
    ------
    InvalidInput
        If no image has such a grade, or the key is that of the severity.
    CollectionBusy
        If another process writes to the collection.
    """
    if not key.strip() or key == SEVERITY or len(key) > 255 or any(sign in key for sign in "=!<>?"):
        raise InvalidInput(f"--write-label: {key!r} is no key for grades; use a name such as grade")
    grades = {
        result.image_id: f"{grade:g}"
        for result in results
        if (grade := result.human_grade if source == "given" else result.grade) is not None
    }
    if not grades:
        reason = "no one has graded an image" if source == "given" else "no grades are predicted yet"
        raise InvalidInput(f"{reason}, so there is no label to write")
    with collection.writer(who) as writer:
        return len(grades), writer.label_images(key, grades)
