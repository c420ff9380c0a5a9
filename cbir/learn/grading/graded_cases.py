"""Graded images of a collection, and what a ranker takes of them: vector, picture, or severity from comparisons."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cbir import descriptors, settings
from cbir.descriptors.network_descriptors import encoder_of
from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.images.scaling import pad_resize
from cbir.learn.grading import SeverityRanker
from cbir.learn.grading.cnn_ranker import SMALL_CNN_SIDE, CnnRanker
from cbir.learn.grading.picture_maps import PictureMaps, Show, check_size
from cbir.learn.severity import stored_ranker
from cbir.learn.severity.stored_images import read_grey_images
from cbir.learn.severity.stored_ranker import LABEL
from cbir.search import QueryImage
from cbir.store import Collection, Record
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


Floats = NDArray[np.floating]


def case_features(collection: Collection, ranker: str, cases: GradedCases) -> Floats:
    """Return the features (n, d) of graded images.

    Parameters
    ----------
    collection : Collection
        The collection.
    ranker : str
        Name of the ranker.
    cases : GradedCases
        Its graded images.

    Raises
    ------
    InvalidInput
        If an image has no picture or no severity, and the ranker needs it.
    """
    if ranker == CnnRanker.name:
        pictures = case_pictures(collection, cases, SMALL_CNN_SIDE, lambda done, total: None)
        return pictures.reshape(len(cases), -1).astype(np.float32)
    if ranker != SeverityRanker.name:
        return cases.vectors
    severities = collection.numeric_labels(LABEL)
    without = [image_id for image_id in cases.image_ids if image_id not in severities]
    if without:
        raise InvalidInput(
            f"{len(without)} of {len(cases)} graded images have no number in the label {LABEL!r}, for example image "
            f"{without[0]}; `cbir annotate serve` or `cbir annotate simulate --write` gives them one"
        )
    return np.array([[severities[image_id]] for image_id in cases.image_ids])


def picture_maps(
    collection: Collection,
    cases: GradedCases,
    encoder: str,
    side: int,
    show: Show = lambda stage, done, total: None,
) -> PictureMaps:
    """Return the pictures of graded images for a network that is tuned.

    Parameters
    ----------
    collection : Collection
        The collection.
    cases : GradedCases
        Its graded images.
    encoder : str
        Encoder whose blocks are trained.
    side : int
        Side of the pictures in pixels.
    show : callable
        Progress callback with stage, done and total.

    Raises
    ------
    InvalidInput
        If an image has no file any more, or the pictures take too much memory.
    """
    check_size(len(cases), side)
    pictures = case_pictures(collection, cases, side, lambda done, total: show("reading", done, total))
    return PictureMaps(pictures, encoder, show)


def case_pictures(
    collection: Collection, cases: GradedCases, side: int, show: Callable[[int, int], None]
) -> NDArray[np.uint8]:
    """Read the grey pictures (n, side, side) of graded images.

    Parameters
    ----------
    collection : Collection
        The collection.
    cases : GradedCases
        Its graded images.
    side : int
        Side in pixels.
    show : callable
        Progress callback with done and total.

    Raises
    ------
    InvalidInput
        If an image has no file any more.
    """
    image_ids = set(cases.image_ids)
    images = read_grey_images(collection, side, keep=lambda record: record.image_id in image_ids, show=show)
    if images.missing:
        raise InvalidInput(
            f"{len(images.missing)} of {len(cases)} graded images have no file any more, for example image "
            f"{images.missing[0]}; put the files back where they were indexed"
        )
    row_of = {record.image_id: row for row, record in enumerate(images.records)}
    rows = [row_of[image_id] for image_id in cases.image_ids]
    return cast(NDArray[np.uint8], images.inputs[rows])


def record_features(collection: Collection, ranker: str, record: Record) -> Floats:
    """Return the features (d,) of an image of a collection.

    Parameters
    ----------
    collection : Collection
        The collection.
    ranker : str
        Name of the ranker.
    record : Record
        The image.

    Raises
    ------
    InvalidInput
        If it has no severity, and the ranker needs it.
    """
    if ranker != SeverityRanker.name:
        return collection.vector(record.image_id)
    try:
        return np.array([float(record.labels[LABEL])])
    except (KeyError, ValueError):
        raise InvalidInput(f"image {record.image_id} has no number in the label {LABEL!r}") from None


def picture_side(collection: Collection, ranker: str) -> int | None:
    """Return the side of the picture that `ranker` needs of a new image, None if it needs the vector."""
    if ranker != SeverityRanker.name:
        return None
    return stored_ranker.ranker_side(stored_ranker.load_stored_ranker(collection))


def other_encoder(collection: Collection, ranker: str) -> str | None:
    """Return the encoder that a new image must be described by; None for the collection's descriptor."""
    if ranker != SeverityRanker.name:
        return None
    descriptor = stored_ranker.ranker_descriptor(stored_ranker.load_stored_ranker(collection))
    if descriptor is None or descriptor == collection.profile.descriptor:
        return None
    encoder = encoder_of(descriptor)
    return None if encoder is None else encoder.name


def image_features(collection: Collection, ranker: str, image: Image | QueryImage) -> Floats:
    """Return the features (d,) of a new image.

    Parameters
    ----------
    collection : Collection
        The collection.
    ranker : str
        Name of the ranker.
    image : Image or QueryImage
        The image, or its description: a picture of `picture_side`, values of `other_encoder`, else its vector.

    Raises
    ------
    NotFound
        If the ranker needs a severity, and the collection has no severity ranker.
    """
    if ranker != SeverityRanker.name:
        descriptor = collection.profile.load_descriptor(settings.load().device)
        return image.vector(descriptor) if isinstance(image, QueryImage) else descriptor(image)
    stored = stored_ranker.load_stored_ranker(collection)
    values: NDArray[Any]
    if (name := stored_ranker.ranker_descriptor(stored)) is not None:
        described = descriptors.get(name)
        values = image.vector(described) if isinstance(image, QueryImage) else described(image)
    elif isinstance(image, QueryImage):
        values = image.features
    else:
        values = pad_resize(image, stored_ranker.ranker_side(stored) or 0)
    return np.array([stored_ranker.severity_of_input(stored, values)])
