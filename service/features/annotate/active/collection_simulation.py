"""Graded images of a collection for simulations, and publication of the trained ranker."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.folds import group_folds
from cbir.learn.grading.graded_cases import parse_grade
from cbir.learn.severity import stored_ranker
from cbir.learn.severity.sampled_ranker import SampledRanker
from cbir.learn.severity.severity_rankers import read_ranker_inputs
from cbir.learn.severity.stored_ranker import write_severity
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import Condition
from service.features.annotate.active.candidate_pool import Rows

MIN_IMAGES = 10  # training and test images together
MIN_PARTS, MAX_PARTS = 2, 50  # of the patients; one part is for testing

Show = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class GradedImages:
    """Graded images of a collection, split by patient.

    `images` (n, ...), pictures or values of an encoder, with `grades` (n,), their rows for `train` and `test`, and
    the number of images whose picture is `missing`.
    """

    images: NDArray[Any]
    grades: NDArray[np.float64]
    train: Rows
    test: Rows
    missing: int


def load_graded_images(
    collection: Collection,
    column: str,
    ranker: SampledRanker,
    held_out: float,
    where: Sequence[Condition] = (),
    seed: int = 0,
    show: Show = lambda stage, done, total: None,
) -> GradedImages:
    """Load the graded images of a collection and split them by patient.

    Parameters
    ----------
    collection : Collection
    column : str
        Label with the grades.
    ranker : SampledRanker
        Decides what is read of an image.
    held_out : float
        Share of the patients for testing, about.
    where : sequence of Condition
        Conditions on the images.
    seed : int
    show : callable
        Progress callback with stage, done and total.

    Returns
    -------
    GradedImages

    Raises
    ------
    InvalidInput
        If there are too few images, a grade is not a number, or no picture can be read.
    """
    parts = round(1 / held_out) if held_out > 0 else 0
    if not MIN_PARTS <= parts <= MAX_PARTS:
        raise InvalidInput(
            f"the held-out share must be from 1/{MAX_PARTS} to 1/{MIN_PARTS}, not {held_out:g}"
        )

    def has_grade(record: Record) -> bool:
        return bool(record.labels.get(column, "").strip())

    images = read_ranker_inputs(
        collection, ranker, where, has_grade, lambda done, total: show("reading", done, total)
    )
    if len(images.records) < MIN_IMAGES:
        raise InvalidInput(
            f"{len(images.records)} images have a picture and a grade in the label {column!r}; at least "
            f"{MIN_IMAGES} are needed"
        )
    grades = np.array([parse_grade(row.labels[column], column, row.image_id) for row in images.records])
    if grades.min() == grades.max():
        raise InvalidInput(
            f"all {len(grades)} grades in the label {column!r} are equal, so there is nothing to rank"
        )
    keys = [record.patient_key or record.image_id for record in images.records]
    patients = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    train, test = group_folds(grades, patients, parts, seed)[0]
    return GradedImages(images.inputs, grades, train, test, len(images.missing))


def publish_ranker(
    collection: Collection, ranker: SampledRanker, show: Show = lambda stage, done, total: None
) -> int:
    """Store `ranker` in the collection and label all images that have a picture with their severity.

    `show` is a progress callback. Returns the number of labelled images.
    """
    images = read_ranker_inputs(collection, ranker, show=lambda done, total: show("reading", done, total))
    if not images.records:
        return 0
    severity = ranker.severity(images.inputs)
    stored_ranker.store_ranker(collection, ranker, {"images": len(images.records)})
    write_severity(collection, [record.image_id for record in images.records], severity.mean)
    return len(images.records)
