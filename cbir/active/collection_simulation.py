"""A simulation on the graded images of a collection, and what may be kept of it there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.active.candidate_pool import Rows
from cbir.errors import InvalidInput
from cbir.models.linear.grouped_folds import group_folds
from cbir.severity import stored_ranker
from cbir.severity.bayesian_ranker import BayesianRanker
from cbir.severity.grey_images import read_grey_images
from cbir.severity.severity_labels import write_severity
from cbir.store import Collection, Record
from cbir.store.filter_conditions import Condition

LEAST = 10  # graded images to learn from and to test on, together
PARTS = (2, 50)  # that patients may be split into, one of them to test on

Show = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class GradedImages:
    """Graded images of a collection, split by patient.

    pictures: (n, side, side) uint8. grades: (n,). train, test: rows of them. missing: how many have no picture.
    """

    pictures: NDArray[np.uint8]
    grades: NDArray[np.float64]
    train: Rows
    test: Rows
    missing: int


def load_graded_images(
    collection: Collection,
    column: str,
    side: int,
    held_out: float,
    where: Sequence[Condition] = (),
    seed: int = 0,
    show: Show = lambda stage, done, total: None,
) -> GradedImages:
    """The images with a grade in the label `column`, about a share `held_out` of the patients to test on.

    Raises InvalidInput where they are too few, a grade is no number, or no picture can be read.
    """
    parts = round(1 / held_out) if held_out > 0 else 0
    if not PARTS[0] <= parts <= PARTS[1]:
        raise InvalidInput(
            f"the share that is held out is from 1/{PARTS[1]} to 1/{PARTS[0]}, not {held_out:g}"
        )

    def has_grade(record: Record) -> bool:
        return bool(record.labels.get(column, "").strip())

    seen = read_grey_images(
        collection, side, where, has_grade, lambda done, total: show("reading", done, total)
    )
    if len(seen.records) < LEAST:
        raise InvalidInput(
            f"{len(seen.records)} images have a picture and a grade in the label {column!r}; {LEAST} are needed"
        )
    grades = np.array([_grade(record, column) for record in seen.records])
    if grades.min() == grades.max():
        raise InvalidInput(
            f"all {len(grades)} grades in the label {column!r} are alike; nothing can be ranked"
        )
    named = [record.patient_key or record.image_id for record in seen.records]
    patients = np.unique(named, return_inverse=True)[1].astype(np.int64)
    train, test = next(group_folds(grades, patients, parts, seed))
    return GradedImages(seen.pixels, grades, train, test, len(seen.missing))


def publish_ranker(
    collection: Collection, ranker: BayesianRanker, show: Show = lambda stage, done, total: None
) -> int:
    """Keep a ranker in the collection and label every image that has a picture with its severity; how many."""
    seen = read_grey_images(collection, ranker.side, show=lambda done, total: show("reading", done, total))
    if not seen.records:
        return 0
    severity = ranker.severity(seen.pixels)
    stored_ranker.store_ranker(collection, ranker, {"images": len(seen.records)})
    write_severity(collection, [record.image_id for record in seen.records], severity.mean)
    return len(seen.records)


def _grade(record: Record, column: str) -> float:
    try:
        found = float(record.labels[column])
    except ValueError:
        found = float("nan")
    if not np.isfinite(found):
        text = record.labels[column][:40]
        raise InvalidInput(
            f"the label {column} of image {record.image_id} is {text!r}, which is not a grade: a number"
        )
    return found
