"""Results of a study for each image: severity, the grade that follows from it, and the grades that people gave."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.features.annotate.active.judgement_journal import ImageGrade
from service.features.annotate.study.study_models import TrainedModel
from service.features.annotate.study.study_plan import StudyPlan

Floats = NDArray[np.float64]


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
    from service.features.annotate.active.grade_thresholds import fit_grade_thresholds  # imports scikit-learn

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
