"""The graded images of a collection."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.filter_conditions import Condition


@dataclass(frozen=True, eq=False)
class Cases:
    """Graded images, in the order they came.

    image_ids, contents: (n,) text. patients: (n,) text, the key, or the image's own id where no patient is known.
    grades: (n,) float64. vectors: (n, d) float32, raw.
    """

    image_ids: list[str]
    contents: NDArray[np.str_]
    patients: NDArray[np.str_]
    grades: NDArray[np.float64]
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.image_ids)


def graded_cases(collection: Collection, column: str, where: Sequence[Condition] = ()) -> Cases:
    """The images with a grade in the label `column` for which every condition holds, maybe none.

    Raises InvalidInput where a grade is not a number, naming its image.
    """
    rows, vectors = collection.labelled_vectors(column, where)
    return Cases(
        image_ids=[row.image_id for row in rows],
        contents=np.array([row.content_hash for row in rows], np.str_),
        patients=np.array([row.patient_key or row.image_id for row in rows], np.str_),
        grades=np.array([_grade(row.value, column, row.image_id) for row in rows], np.float64),
        vectors=vectors,
    )


def need_grades(cases: Cases, column: str) -> None:
    """Raise InvalidInput where there are no graded images."""
    if not len(cases):
        raise InvalidInput(f"no image of the collection has a grade in the label {column!r}")


def _grade(text: str, column: str, image_id: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not np.isfinite(found):
        raise InvalidInput(
            f"the label {column} of image {image_id} is {text[:40]!r}, which is not a grade: a number"
        )
    return found
