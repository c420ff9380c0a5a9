"""The graded images of a collection."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.records.filter_conditions import Condition


@dataclass(frozen=True, eq=False)
class GradedCases:
    """Graded images in the order of their contents, which is the same in every collection of the same files.

    Attributes
    ----------
    image_ids : list of str
        Ids.
    content_hashes : (n,) str
        Hashes of the pictures.
    patients : (n,) str
        Patient keys; the image's id if the patient is unknown.
    grades : (n,) float64
        Grades.
    vectors : (n, d) float32
        Raw vectors.
    """

    image_ids: list[str]
    content_hashes: NDArray[np.str_]
    patients: NDArray[np.str_]
    grades: NDArray[np.float64]
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.image_ids)

    def select(self, rows: NDArray[np.int64]) -> "GradedCases":
        """Return the images of some rows."""
        return GradedCases(
            [self.image_ids[row] for row in rows],
            self.content_hashes[rows],
            self.patients[rows],
            self.grades[rows],
            self.vectors[rows],
        )

    def groups(self) -> NDArray[np.int64]:
        """Number the patients (n,) by their first images: their keys differ between collections."""
        _, first, numbers = np.unique(self.patients, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[numbers]


def read_graded_cases(collection: Collection, column: str, where: Sequence[Condition] = ()) -> GradedCases:
    """Read the graded images of a collection.

    Parameters
    ----------
    collection : Collection
        The collection.
    column : str
        Label of the grades.
    where : sequence of Condition
        Conditions that an image must fulfil.

    Returns
    -------
    GradedCases
        Perhaps empty.

    Raises
    ------
    InvalidInput
        If a grade is not a number.
    """
    labelled, stored = collection.labelled_vectors(column, where)
    order = sorted(range(len(labelled)), key=lambda row: (labelled[row].content_hash, labelled[row].image_id))
    rows, vectors = [labelled[row] for row in order], stored[order]
    return GradedCases(
        image_ids=[row.image_id for row in rows],
        content_hashes=np.array([row.content_hash for row in rows], np.str_),
        patients=np.array([row.patient_key or row.image_id for row in rows], np.str_),
        grades=np.array([parse_grade(row.value, column, row.image_id) for row in rows], np.float64),
        vectors=vectors,
    )


def require_grades(cases: GradedCases, column: str) -> None:
    """Raise InvalidInput if no image has a grade in the label `column`."""
    if not len(cases):
        raise InvalidInput(f"no image of the collection has a grade in the label {column!r}")


def parse_grade(text: str, column: str, image_id: str) -> float:
    """Parse the grade of an image.

    Parameters
    ----------
    text : str
        Value of the label.
    column, image_id : str
        Label and image, for the message.

    Raises
    ------
    InvalidInput
        If it is not a finite number.
    """
    with suppress(ValueError):
        if math.isfinite(grade := float(text)):
            return grade
    raise InvalidInput(
        f"the label {column} of image {image_id} is {text[:40]!r}, which is not a grade: a number"
    )
