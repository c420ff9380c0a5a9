"""Reads rows of `images` with their labels as records, and checks their checksums."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Row, Select, select

from cbir.errors import CollectionDamaged
from cbir.store.base.reserved_labels import SLICE_PLACE, STUDY_DAY, require_other_keys
from cbir.store.base.schema import images, labels
from cbir.store.base.statements import Statement, is_postgresql, joined_numbers, values_checksum
from cbir.store.records.filter_conditions import Condition
from cbir.store.records.image_rows import batches
from cbir.store.records.records import PERSON_LABELS, Record
from cbir.store.safety.row_damage import describe_damage

CHECKED_VALUES = len(images.c) - 1  # of a row, before its checksum
BLOCK = 50  # images whose labels are read together where their bytes are bounded

# Constant statements, run by the driver for every search: SQLAlchemy takes several times as long to build them.
_IMAGES_BY_NUMBER = Statement(
    f"SELECT {', '.join(images.columns.keys())} FROM images WHERE number IN ? ORDER BY number"
)
_IMAGE_BY_ID = Statement(f"SELECT {', '.join(images.columns.keys())} FROM images WHERE image_id = ?")
_LABELS_BY_NUMBER = Statement(  # in the order of the index, which needs no sorting
    "SELECT number, key, value, checksum FROM labels WHERE number IN ? ORDER BY number, key"
)
# In PostgreSQL, one statement needs neither a transaction nor a second answer of the server.
_WITH_LABELS = (
    f"SELECT {', '.join(images.columns.keys())}, "
    "(SELECT json_agg(json_build_array(key, value, labels.checksum) ORDER BY key) FROM labels "
    "WHERE labels.number = images.number) AS labels FROM images WHERE "
)
_RECORDS_BY_NUMBER = Statement(_WITH_LABELS + "number IN ? ORDER BY number")
_RECORD_BY_ID = Statement(_WITH_LABELS + "image_id = ?")


@dataclass(frozen=True)
class LabelledImage:
    """An image with its value of one label. number: the collection's internal number of the image."""

    number: int
    image_id: str
    content_hash: str
    patient_key: str | None
    value: str


def records_by_number(connection: Connection, numbers: Sequence[int]) -> dict[int, Record]:
    """Return the records of images by number; those that are not there are left out. Raises CollectionDamaged."""
    integers = [int(number) for number in numbers]
    if is_postgresql(connection):
        return _joined_records(connection, _RECORDS_BY_NUMBER.run(connection, integers).all())
    return _with_labels(connection, _IMAGES_BY_NUMBER.run(connection, integers).all())


def bounded_records(
    connection: Connection, numbers: Sequence[int], label_bytes: int
) -> tuple[dict[int, Record], set[int]]:
    """Return the records of images by number, and the numbers of those whose labels were not read.

    Parameters
    ----------
    connection : Connection
    numbers : sequence of int
        Numbers of images; those that are not there are left out.
    label_bytes : int
        Bytes of keys and values; once the images before have more, the labels of the others are not read.

    Raises
    ------
    CollectionDamaged
        If a row that was read is damaged.
    """
    records, end = dict[int, Record](), 0
    while end < len(numbers) and label_bytes >= 0:
        block = records_by_number(connection, numbers[end : end + BLOCK])
        records |= block
        label_bytes -= sum(
            len(f"{key}{value}".encode(errors="surrogatepass"))
            for record in block.values()
            for key, value in record.labels.items()
        )
        end += BLOCK
    unread = [int(number) for number in numbers[end:]]
    rows = _IMAGES_BY_NUMBER.run(connection, unread).all() if unread else []
    bare = _checked_records(connection, rows, ())
    return records | bare, set(bare)


def records_with_id(connection: Connection, image_id: str) -> dict[int, Record]:
    """Return the record of one image by its number; none if it is not there. Raises CollectionDamaged."""
    if is_postgresql(connection):
        return _joined_records(connection, _RECORD_BY_ID.run(connection, image_id).all())
    return _with_labels(connection, _IMAGE_BY_ID.run(connection, image_id).all())


def _joined_records(connection: Connection, rows: Sequence[Row[Any]]) -> dict[int, Record]:
    """Return the records of rows of `images` with a column of their labels."""
    label_rows = ((row.number, *label) for row in rows for label in row.labels or ())
    return _checked_records(connection, rows, label_rows)


def records_of_query(connection: Connection, query: Select[Any]) -> dict[int, Record]:
    """Return the records of the rows of `images` that a query selects, in its order. Raises CollectionDamaged."""
    return _with_labels(connection, connection.execute(query).all())


def _with_labels(connection: Connection, rows: Sequence[Row[Any]]) -> dict[int, Record]:
    """Return the records of rows of `images`, in their order."""
    numbers = [row.number for row in rows]
    return _checked_records(connection, rows, _LABELS_BY_NUMBER.run(connection, numbers).all())


def _checked_records(
    connection: Connection, rows: Sequence[Row[Any]], label_rows: Iterable[tuple[int, str, str, int]]
) -> dict[int, Record]:
    """Return the records of rows of `images` with their labels, whose rows have checksums too."""
    labels_of: dict[int, dict[str, str]] = {row.number: {} for row in rows}
    damaged = {row.number for row in rows if row.checksum != values_checksum(*row[:CHECKED_VALUES])}
    if damaged:
        raise CollectionDamaged(describe_damage(connection, "records", sorted(damaged)))
    for number, key, value, checksum in label_rows:
        labels_of[number][key] = value
        if checksum != crc32(f"{key}\0{value}\0{number}".encode()):  # as values_checksum, in half the time
            damaged.add(number)
    if damaged:
        raise CollectionDamaged(describe_damage(connection, "labels", sorted(damaged)))
    return {row.number: _record(row, labels_of[row.number]) for row in rows}


def _record(row: Row[Any], record_labels: dict[str, str]) -> Record:
    values = dict(row._mapping)
    values.pop("labels", None)
    del values["number"], values["checksum"]
    values["burned_in"] = bool(values["burned_in"])
    day = stored_day(record_labels.pop(STUDY_DAY, None))
    location = record_labels.pop(SLICE_PLACE, "")
    for key in PERSON_LABELS:  # pages have room for the first ones
        if key in record_labels:
            record_labels[key] = record_labels.pop(key)
    return Record(labels=record_labels, study_day=day, slice_place=location, **values)


def stored_day(text: str | None) -> int | None:
    """Return the day that is stored as `text`; None for a label of older collections that is no day."""
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() else None


def numbers_where(connection: Connection, *conditions: ColumnElement[bool]) -> NDArray[np.int64]:
    """Return the numbers of the images for which all `conditions` hold, ascending."""
    matching = select(images.c.number).where(*conditions).subquery()
    # One text: a row at a time, SQLAlchemy and Python take eight times as long.
    listed = connection.scalar(select(joined_numbers(matching.c.number)))
    return np.sort(np.fromstring(listed or "", np.int64, sep=","))


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
    require_other_keys([key])
    columns = images.c.number, images.c.image_id, images.c.content_hash, images.c.patient_key, labels.c.value
    query = select(*columns).join(labels, labels.c.number == images.c.number).order_by(images.c.number)
    query = query.where(labels.c.key == key, *(condition.matches() for condition in where))
    return [LabelledImage(*row) for row in connection.execute(query) if row.value.strip()]


def numbers_by_id(connection: Connection, image_ids: Iterable[str]) -> dict[str, int]:
    """Return numbers by image id, of any number of images; unknown ids are left out."""
    query = select(images.c.image_id, images.c.number)
    return {
        row.image_id: row.number
        for batch in batches(sorted(set(image_ids)))
        for row in connection.execute(query.where(images.c.image_id.in_(batch)))
    }
