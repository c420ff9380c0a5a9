"""A collection's tables beside each vector index, and the images of the tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, delete, insert, select

from cbir.store.base.schema import images, labels
from cbir.store.index.port import IndexedImage, IndexScope, Neighbours, Numbers, VectorIndex
from cbir.store.records.filter_conditions import DicomScope
from cbir.store.views.index_feed import scope_conditions

DIMENSIONS = 16
BODY_PARTS = ("knee", "HAND", "foot", "chest")


@dataclass
class Subject:
    """An index under test with the images that it should hold, kept in step with the tables of a collection.

    opened: opens the index again, as another process does.
    """

    engine: Engine
    opened: Callable[[], VectorIndex]

    def __post_init__(self) -> None:
        self.index = self.opened()
        self.images: dict[int, IndexedImage] = {}
        self.vectors: dict[int, NDArray[np.float32]] = {}

    def put(self, new: Sequence[IndexedImage], vectors: NDArray[np.float32]) -> None:
        """Add or replace images in the tables, and in the index."""
        with self.engine.begin() as connection:
            _delete_rows(connection, [image.number for image in new])
            _insert_rows(connection, new)
        self.index.put(new, vectors)
        self.images |= {image.number: image for image in new}
        self.vectors |= {image.number: vector for image, vector in zip(new, vectors, strict=True)}

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete images from the tables, and from the index."""
        with self.engine.begin() as connection:
            _delete_rows(connection, numbers)
        self.index.delete(np.array(numbers, np.int64))
        for number in numbers:
            self.images.pop(number, None)
            self.vectors.pop(number, None)

    def exact(self, query: NDArray[np.float32], k: int, scope: IndexScope | None = None) -> Neighbours:
        """Compare the query with every image of the scope, one by one."""
        scope = scope or IndexScope()
        numbers = np.array(
            sorted(n for n, image in self.images.items() if is_in_scope(image, scope)), np.int64
        )
        vectors = np.array([self.vectors[number] for number in numbers], np.float64).reshape(-1, DIMENSIONS)
        distances = np.sqrt(((vectors - query) ** 2).sum(axis=1))
        order = np.argsort(distances, kind="stable")[:k]
        return Neighbours(numbers[order], distances[order].astype(np.float32))


def matching_numbers(engine: Engine, scope: IndexScope) -> Numbers:
    """Return the numbers of the images in a scope, by SQL."""
    with engine.connect() as connection:
        found = connection.scalars(select(images.c.number).where(*scope_conditions(**vars(scope))))
        return np.array(sorted(found), np.int64)


def is_in_scope(image: IndexedImage, scope: IndexScope) -> bool:
    """Return whether an image may be an answer, condition by condition."""
    if not all(condition.holds_for(image.labels) for condition in scope.where):
        return False
    for patient in scope.of_patients:
        same = patient.key is not None and image.patient_key == patient.key
        if not same or (image.study and image.study == patient.besides):
            return False
    if image.patient_key and image.patient_key in scope.without_patients:
        return False
    return image.content_hash not in scope.without_contents and not (
        scope.outside and _is_outside(image, scope.outside)
    )


def _is_outside(image: IndexedImage, outside: DicomScope) -> bool:
    named = [
        (uid, own)
        for uid, own in (
            (outside.study, image.study),
            (outside.series, image.series),
            (outside.instance, image.instance),
        )
        if uid
    ]
    return not image.instance or bool(outside.study and all(uid == own for uid, own in named))


def make_images(count: int, first: int = 1) -> list[IndexedImage]:
    """Return images of ten patients, two in three DICOM, with labels of all kinds."""
    made = []
    for number in range(first, first + count):
        uid = f"1.2.{number % 7}"
        image = IndexedImage(
            number,
            content_hash=f"{number % 50:032x}",
            patient_key=f"{number % 10:032x}" if number % 4 else "",
            labels={"part": BODY_PARTS[number % 4], "grade": f"{number % 9 / 2}"}
            | ({"rare": "yes"} if number % 100 == 1 else {})
            | ({"odd": "n/a" if number % 2 else f"{number}"} if number % 5 == 0 else {}),
        )
        if number % 3:
            image = replace(image, study=uid, series=f"{uid}.{number % 2}", instance=f"{uid}.0.{number}")
        made.append(image)
    return made


def make_vectors(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Return vectors in 20 clusters."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((20, DIMENSIONS))
    return (
        centres[random.integers(0, 20, count)] + 0.5 * random.standard_normal((count, DIMENSIONS))
    ).astype(np.float32)


def _insert_rows(connection: Any, new: Sequence[IndexedImage]) -> None:
    rows = [
        {
            "number": image.number,
            "image_id": f"{image.number}",
            "content_hash": image.content_hash,
            "patient_key": image.patient_key or None,
            "study": image.study,
            "series": image.series,
            "instance": image.instance,
            "source": "",
            "source_stamp": "",
            "format": "png",
            "width": 1,
            "height": 1,
            "burned_in": 0,
        }
        for image in new
    ]
    of_labels = [
        {"key": key, "value": value, "number": image.number}
        for image in new
        for key, value in image.labels.items()
    ]
    connection.execute(insert(images), rows)
    if of_labels:
        connection.execute(insert(labels), of_labels)


def _delete_rows(connection: Any, numbers: Sequence[int]) -> None:
    connection.execute(delete(labels).where(labels.c.number.in_(numbers)))
    connection.execute(delete(images).where(images.c.number.in_(numbers)))
