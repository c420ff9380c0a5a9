"""Results of a study for each image, its judgements as tables, and its grades as a label of the collection."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.severity.stored_ranker import LABEL as SEVERITY
from cbir.store import Collection
from cbir.system.files import csv_text
from service.features.annotate.active.judgement_journal import (
    Entry,
    ImageGrade,
    Undo,
    not_undone,
    valid_grades,
    valid_judgements,
)
from service.features.annotate.study_files import TrainedModel
from service.features.annotate.study_plan import StudyPlan

Floats = NDArray[np.float64]
ANSWER_COLUMNS = (
    "kind", "state", "who", "at", "seconds", "round", "first", "second", "answer", "image", "grade", "grade_name",
    "name",
)  # fmt: skip
RESULT_COLUMNS = ("image_id", "score", "deviation", "grade", "grade_name", "given_grade", "graders")
GradeSource = Literal["given", "predicted"]


class ImageResult(NamedTuple):
    """Result for one image.

    `score` is the severity and `deviation` its uncertainty, a standard deviation; None before the first training, or
    if the image could not be read. `grade` is predicted from the score. `human_grade` is the median grade of the
    `graders` people who graded the image, the lower of two; None if no one did.
    """

    image_id: str
    score: float | None
    deviation: float | None
    grade: float | None
    human_grade: float | None
    graders: int


def given_grades(answers: Sequence[ImageGrade]) -> dict[str, list[float]]:
    """Return the grades in valid `answers` by image, ascending; images that no one could judge are left out."""
    grades: dict[str, list[float]] = {}
    for answer in answers:
        if answer.grade is not None:
            grades.setdefault(answer.image, []).append(answer.grade)
    return {image: sorted(values) for image, values in grades.items()}


def median_grade(grades: Sequence[float]) -> float:
    """Return the median of ascending `grades`, the lower of two, so that it is a grade too."""
    return grades[(len(grades) - 1) // 2]


def predict_grades(model: TrainedModel | None, human_grades: dict[str, list[float]]) -> dict[str, float]:
    """Return the grade that follows from the severity of each image of `model`, by id.

    Thresholds between the grades are fitted to the images with `human_grades`; {} if these are all the same.
    """
    if model is None:
        return {}
    grades = [
        median_grade(human_grades[image_id]) if image_id in human_grades else np.nan for image_id in model.ids
    ]
    if len({grade for grade in grades if not np.isnan(grade)}) < 2:
        return {}
    from service.features.annotate.active.severity_grades import fit_grade_thresholds  # imports scikit-learn

    mean = model.severity.mean.astype(np.float64)
    thresholds = fit_grade_thresholds(mean, np.array(grades, np.float64))
    return {} if thresholds is None else dict(zip(model.ids, thresholds(mean).tolist(), strict=True))


def study_results(
    ids: Sequence[str], plan: StudyPlan, model: TrainedModel | None, answers: Sequence[ImageGrade]
) -> list[ImageResult]:
    """Return the result of each image.

    Parameters
    ----------
    ids : sequence of str
        Images of the study; the results have their order.
    plan : StudyPlan
        Grades that it no longer has are left out.
    model : TrainedModel, optional
        The latest one.
    answers : sequence of ImageGrade
        Valid ones.

    Returns
    -------
    list of ImageResult
    """
    human_grades = given_grades([answer for answer in answers if answer.grade in plan.grades])
    predicted = predict_grades(model, human_grades)
    rows = {image_id: row for row, image_id in enumerate(model.ids)} if model else {}
    results = []
    for image_id in ids:
        score = deviation = None
        if model and image_id in rows:
            score = float(model.severity.mean[rows[image_id]])
            deviation = float(np.sqrt(model.severity.variance[rows[image_id]]))
        grades = human_grades.get(image_id, [])
        median = median_grade(grades) if grades else None
        results.append(ImageResult(image_id, score, deviation, predicted.get(image_id), median, len(grades)))
    return results


def answer_rows(entries: Iterable[Entry], plan: StudyPlan) -> list[dict[str, Any]]:
    """Return all answers in the order of the journal, also withdrawn ones, with the columns `ANSWER_COLUMNS`.

    Their `state` is "current", "replaced" by a later answer of the same person, or "withdrawn". The `grade` of an
    image that a person could not judge is None.
    """
    entries = list(entries)
    given = {entry.name for entry in not_undone(entries)}
    current = {entry.name for entry in valid_judgements(entries)}
    current |= {entry.name for entry in valid_grades(entries)}
    rows = []
    for entry in entries:
        if isinstance(entry, Undo):
            continue
        state = "current" if entry.name in current else "replaced" if entry.name in given else "withdrawn"
        values = entry.model_dump(mode="json") | {"state": state}
        if isinstance(entry, ImageGrade):
            values["grade_name"] = _grade_name(plan, entry.grade)
        rows.append({column: values.get(column) for column in ANSWER_COLUMNS})
    return rows


def result_rows(results: Iterable[ImageResult], plan: StudyPlan) -> list[dict[str, Any]]:
    """Return `results` with the columns `RESULT_COLUMNS`."""
    return [
        {
            "image_id": result.image_id,
            "score": result.score,
            "deviation": result.deviation,
            "grade": result.grade,
            "grade_name": _grade_name(plan, result.grade),
            "given_grade": result.human_grade,
            "graders": result.graders,
        }
        for result in results
    ]


def _grade_name(plan: StudyPlan, grade: float | None) -> str | None:
    return plan.name_of(grade) if plan.grade_names and grade in plan.grades and grade is not None else None


def study_facts(plan: StudyPlan) -> dict[str, Any]:
    """Return what a JSON file says about the study: its question, its grades and the images that it holds for."""
    grades = [{"grade": grade, "name": plan.name_of(grade)} for grade in plan.grades]
    return {"study": plan.study, "question": plan.question, "where": list(plan.where), "grades": grades}


def table_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return `rows` as csv; a text that a spreadsheet would take for a formula gets an apostrophe in front."""
    return csv_text([columns, *([row[column] for column in columns] for row in rows)])


def write_grades(
    collection: Collection,
    key: str,
    results: Sequence[ImageResult],
    source: GradeSource,
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
    with collection.writer() as writer:
        return len(grades), writer.label_images(key, grades)
