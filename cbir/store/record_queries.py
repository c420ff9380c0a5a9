"""Queries for image records and vectors; each function works within the transaction of its connection."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, Select, func, select

from cbir.errors import NotFound
from cbir.store.dicom_instances import DicomScope
from cbir.store.filter_conditions import Condition
from cbir.store.image_rows import batches
from cbir.store.records import Record
from cbir.store.schema import images, labels, thumbnails, vectors


@dataclass(frozen=True)
class LabelledImage:
    """An image with its value of one label. number: the collection's internal number of the image."""

    number: int
    image_id: str
    content_hash: str
    patient_key: str | None
    value: str


def count_records(connection: Connection) -> int:
    """Count the images."""
    return connection.scalar(select(func.count()).select_from(images)) or 0


def read_record(connection: Connection, image_id: str) -> Record:
    """Return the record of one image; raises NotFound."""
    records = _read_records(connection, select(images).where(images.c.image_id == image_id))
    if not records:
        raise _not_found(image_id)
    return next(iter(records.values()))


def read_page(
    connection: Connection, after: int, limit: int, where: Sequence[Condition] = ()
) -> list[tuple[int, Record]]:
    """Return numbers and records of the next images, in the order in which they were added.

    Parameters
    ----------
    connection : Connection
    after : int
        Only images with larger numbers.
    limit : int
        Largest number of records.
    where : sequence of Condition
        Label conditions; all must hold.
    """
    query = select(images).where(images.c.number > after, *(condition.matches() for condition in where))
    return list(_read_records(connection, query.order_by(images.c.number).limit(limit)).items())


def read_records(connection: Connection, numbers: Sequence[int]) -> dict[int, Record]:
    """Return records by image number; deleted images are left out."""
    records: dict[int, Record] = {}
    for batch in batches([int(number) for number in numbers]):
        records |= _read_records(connection, select(images).where(images.c.number.in_(batch)))
    return records


def read_records_by_id(connection: Connection, image_ids: Iterable[str]) -> dict[str, Record]:
    """Return records by image id, in the order of their numbers; unknown ids are left out."""
    numbers = sorted(
        number
        for batch in batches(sorted(set(image_ids)))
        for number in connection.scalars(select(images.c.number).where(images.c.image_id.in_(batch)))
    )
    return {record.image_id: record for record in read_records(connection, numbers).values()}


def read_thumbnail(connection: Connection, image_id: str) -> bytes | None:
    """Return the stored JPEG of an uploaded image; None if there is none."""
    query = select(thumbnails.c.picture).join(images).where(images.c.image_id == image_id)
    return connection.scalar(query)


def read_vector(connection: Connection, image_id: str) -> NDArray[np.float32]:
    """Return the raw vector (d,) float32 of one image; raises NotFound."""
    query = select(vectors.c.vector).join(images).where(images.c.image_id == image_id)
    stored = connection.scalar(query)
    if stored is None:
        raise _not_found(image_id)
    return np.frombuffer(stored, "<f4").astype(np.float32)


def first_id_showing(connection: Connection, content_hash: str) -> str | None:
    """Return the id of the first image with this content hash, None if there is none."""
    query = select(images.c.image_id).where(images.c.content_hash == content_hash)
    return connection.scalar(query.order_by(images.c.number).limit(1))


def numbers_of(connection: Connection, image_ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers (j,) of at most some hundred images, in the order of `image_ids`; raises NotFound."""
    query = select(images.c.image_id, images.c.number).where(images.c.image_id.in_(image_ids))
    numbers = {row.image_id: row.number for row in connection.execute(query)}
    for image_id in image_ids:
        if image_id not in numbers:
            raise _not_found(image_id)
    return np.array([numbers[image_id] for image_id in image_ids], np.int64)


def numbers_showing(connection: Connection, content_hashes: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers of all images with one of these content hashes."""
    query = select(images.c.number).where(images.c.content_hash.in_(content_hashes))
    return np.fromiter(connection.scalars(query), np.int64)


def numbers_in(connection: Connection, scope: DicomScope) -> list[int]:
    """Return the numbers of the images in a DICOM `scope`, by series and instance, then by frame."""
    order = (images.c.series, images.c.instance, images.c.frame, images.c.number)
    return list(connection.scalars(select(images.c.number).where(scope.contains()).order_by(*order)))


def numbers_outside(connection: Connection, scope: DicomScope) -> NDArray[np.int64]:
    """Return the numbers of the images in a DICOM `scope`, and of those that are no DICOM instance."""
    return np.fromiter(connection.scalars(select(images.c.number).where(scope.excludes())), np.int64)


def numbers_of_patients(connection: Connection, keys: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers of the images of the patients with these keys."""
    query = select(images.c.number).where(images.c.patient_key.in_(keys))
    return np.fromiter(connection.scalars(query), np.int64)


def matching_numbers(connection: Connection, conditions: Iterable[Condition]) -> NDArray[np.int64]:
    """Return the numbers of the images for which every condition holds, ascending."""
    query = select(images.c.number).where(*(condition.matches() for condition in conditions))
    return np.fromiter(connection.scalars(query.order_by(images.c.number)), np.int64)


def patient_keys(connection: Connection) -> dict[int, str]:
    """Return the patient key of every image that has one, by number."""
    query = select(images.c.number, images.c.patient_key).where(images.c.patient_key.is_not(None))
    return {row.number: row.patient_key for row in connection.execute(query)}


def content_hashes(connection: Connection) -> dict[int, str]:
    """Return the content hash of every image, by number."""
    query = select(images.c.number, images.c.content_hash)
    return {row.number: row.content_hash for row in connection.execute(query)}


def read_labelled_images(
    connection: Connection, key: str, where: Sequence[Condition] = ()
) -> list[LabelledImage]:
    """Return the images with a value of a label that is not blank, by number.

    Parameters
    ----------
    connection : Connection
    key : str
        Label key.
    where : sequence of Condition
        Further label conditions; all must hold.
    """
    columns = images.c.number, images.c.image_id, images.c.content_hash, images.c.patient_key, labels.c.value
    query = (
        select(*columns)
        .join(labels, labels.c.number == images.c.number)
        .where(labels.c.key == key, *(condition.matches() for condition in where))
        .order_by(images.c.number)
    )
    return [LabelledImage(*row) for row in connection.execute(query) if row.value.strip()]


def _not_found(image_id: str) -> NotFound:
    return NotFound(f"there is no image {image_id} in the collection")


def _read_records(connection: Connection, query: Select[Any]) -> dict[int, Record]:
    """Read the rows of `images` that a query selects, in its order, with their labels."""
    rows = connection.execute(query).all()
    labels_by_number: dict[int, dict[str, str]] = {row.number: {} for row in rows}
    label_query = select(labels.c.number, labels.c.key, labels.c.value).where(
        labels.c.number.in_(labels_by_number)
    )
    for number, key, value in connection.execute(label_query.order_by(labels.c.key)):
        labels_by_number[number][key] = value
    return {row.number: _record(row, labels_by_number[row.number]) for row in rows}


def _record(row: Row[Any], record_labels: dict[str, str]) -> Record:
    values = dict(row._mapping)
    del values["number"]
    values["burned_in"] = bool(values["burned_in"])
    return Record(labels=record_labels, **values)
