"""Counts of a collection's images and labels: which keys and values there are, and how many images have them."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, MetaData, Select, func, select

from cbir.errors import InvalidInput
from cbir.store.base import metadata
from cbir.store.base.profile import Profile
from cbir.store.base.reserved_labels import RESERVED, require_other_keys
from cbir.store.base.schema import images, labels
from cbir.store.base.statements import Statement, is_listed
from cbir.store.records.filter_conditions import Condition
from cbir.store.snapshot import stored_snapshot
from cbir.system.remedies import did_you_mean

LISTED_KEYS = 20  # in a message

Numbers = NDArray[np.int64]

KNOWN = Statement("SELECT 1 FROM labels WHERE key = ? LIMIT 1")

# The table itself, where the connection of a limited collection shows a view of it.
ALL_LABELS = labels.to_metadata(MetaData(schema="main"))


class LabelKey(NamedTuple):
    """A label key. images: number of images that have it. values: number of its different values."""

    key: str
    images: int
    values: int


class LabelCount(NamedTuple):
    """A value of a label, and the number of images that have it."""

    value: str
    images: int


class LabelValues(NamedTuple):
    """Values of a label key.

    images, values: as of `LabelKey`. minimum, maximum: of the values that are numbers; None if none is.
    items: a page of the values with their numbers of images, the most frequent first, equally frequent ones in the
    order of their characters.
    """

    key: str
    images: int
    values: int
    minimum: float | None
    maximum: float | None
    items: list[LabelCount]


_OF_PATIENTS = Statement(
    "SELECT patient_key, count(*) FROM images WHERE patient_key IN ? GROUP BY patient_key"
)


def count_by_patient(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    """Return the number of images of each patient, by key."""
    return dict(map(tuple, _OF_PATIENTS.run(connection, list(keys))))


def check_label_keys(connection: Connection, keys: Sequence[str]) -> None:
    """Raise InvalidInput, which names a close key and all of them, for a key that no image has."""
    require_other_keys(keys)
    for key in keys:
        if KNOWN.run(connection, key).first() is None:
            query = (
                select(labels.c.key).where(labels.c.key.not_in(RESERVED)).distinct().order_by(labels.c.key)
            )
            raise InvalidInput(_unknown_key(key, connection.scalars(query).all()))


def _unknown_key(key: str, known: Sequence[str]) -> str:
    if not known:
        return f"no image has a label '{key}'; no image has any label"
    advice = did_you_mean(key, known) or "."
    listed = ", ".join(known[:LISTED_KEYS]) + (", ..." if len(known) > LISTED_KEYS else "")
    return f"no image has a label '{key}'{advice} Labels: {listed}"


def read_label_keys(
    connection: Connection, where: Sequence[Condition] = (), *, numbers: Numbers | None = None
) -> list[LabelKey]:
    """Return the keys of the images for which all conditions hold, in alphabetical order.

    Parameters
    ----------
    connection : Connection
    where : sequence of Condition
        Conditions on the images that count; all must hold.
    numbers : (n,) int64, optional
        Numbers of the images that count, in place of `where`; also those that the connection hides.
    """
    values = _value_counts(where, numbers).subquery()
    total = func.sum(values.c.images)
    query = select(values.c.key, total, func.count()).group_by(values.c.key).order_by(values.c.key)
    return [LabelKey(key, int(images_), count) for key, images_, count in connection.execute(query)]


def read_label_values(
    connection: Connection,
    key: str,
    where: Sequence[Condition] = (),
    offset: int = 0,
    limit: int = 100,
    *,
    numbers: Numbers | None = None,
) -> LabelValues:
    """Return a page of the values of a label.

    Parameters
    ----------
    connection : Connection
    key : str
        Label key.
    where, numbers
        Images that count, see `read_label_keys`.
    offset, limit : int
        Number of values before the page, and on it.

    Raises
    ------
    InvalidInput
        If no image has the label.
    """
    check_label_keys(connection, [key])
    values = _value_counts(where, numbers, key).subquery()
    number = func.as_number(values.c.value)
    totals = select(func.sum(values.c.images), func.count(), func.min(number), func.max(number))
    total, different, minimum, maximum = connection.execute(totals.select_from(values)).one()
    page = select(values.c.value, values.c.images).order_by(values.c.images.desc(), values.c.value)
    items = [LabelCount(*row) for row in connection.execute(page.offset(offset).limit(limit))]
    return LabelValues(key, int(total or 0), different, minimum, maximum, items)


def _value_counts(
    where: Sequence[Condition], numbers: Numbers | None, key: str | None = None
) -> Select[tuple[str, str, int]]:
    """Return the query for keys and values with their numbers of images; for the values of `key` if it is given."""
    table = labels if numbers is None else ALL_LABELS
    query = select(table.c.key, table.c.value, func.count().label("images")).where(
        table.c.key.not_in(RESERVED)
    )
    if numbers is not None:
        query = query.where(is_listed(table.c.number, json.dumps(numbers.tolist())))
    elif where:
        matching = select(images.c.number).where(*(condition.matches() for condition in where))
        query = query.where(table.c.number.in_(matching))
    if key is not None:
        query = query.where(table.c.key == key)
    return query.group_by(table.c.key, table.c.value)


MAX_VALUES = 100  # most frequent values counted of each label


def count_images(connection: Connection) -> dict[str, Any]:
    """Count images, patients and images without_patient; images by format, and by value of each label key."""
    totals = select(
        func.count(), func.count(images.c.patient_key), func.count(images.c.patient_key.distinct())
    )
    total, with_patient, patients = connection.execute(totals.select_from(images)).one()
    by_format = select(images.c.format, func.count()).group_by(images.c.format).order_by(images.c.format)
    number = func.count().label("number")
    order = func.row_number().over(partition_by=labels.c.key, order_by=(func.count().desc(), labels.c.value))
    grouped = select(labels.c.key, labels.c.value, number, order.label("position"))
    ranked = grouped.where(labels.c.key.not_in(RESERVED)).group_by(labels.c.key, labels.c.value).subquery()
    frequent = select(ranked).where(ranked.c.position <= MAX_VALUES)
    values: dict[str, dict[str, int]] = {}
    for row in connection.execute(frequent.order_by(ranked.c.key, ranked.c.position)):
        values.setdefault(row.key, {})[row.value] = row.number
    return {
        "images": total,
        "patients": patients,
        "without_patient": total - with_patient,
        "formats": dict(connection.execute(by_format).all()),
        "labels": values,
    }


def count_label_keys(connection: Connection) -> dict[str, int]:
    """Return every label key with the number of images that have it."""
    query = select(labels.c.key, func.count()).where(labels.c.key.not_in(RESERVED)).group_by(labels.c.key)
    query = query.order_by(labels.c.key)
    return dict(connection.execute(query).all())


def collection_info(connection: Connection, folder: Path, profile: Profile) -> dict[str, Any]:
    """Return the summary that `cbir collection info` prints.

    Parameters
    ----------
    connection : Connection
    folder : Path
        Folder of the collection.
    profile : Profile
        Its profile.
    """
    snapshot = stored_snapshot.read_snapshot_info(connection, folder)
    statistics = metadata.read_statistics(connection)
    return {
        "images": connection.scalar(select(func.count()).select_from(images)) or 0,
        "profile": profile.name,
        "profile_hash": profile.hash,
        "descriptor": profile.descriptor,
        "weights": profile.weights,
        "rerank": profile.rerank,
        "generation": int(metadata.required_value(connection, "generation")),
        "format": int(metadata.required_value(connection, "format")),
        "created": metadata.required_value(connection, "created"),
        "statistics_fitted_on": statistics.fitted_on if statistics else None,
        "snapshot": snapshot.model_dump(include={"file", "generation", "images"}) if snapshot else None,
        "labels": count_label_keys(connection),
        "bytes_on_disk": _bytes_in(folder),
    }


def _bytes_in(folder: Path) -> int:
    """Return the bytes of all files in a folder, without files and folders that a writer has just removed."""
    size = 0
    for inner, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.stat(os.path.join(inner, name)).st_size
    return size


def frequent_values(connection: Connection, key: str, limit: int) -> list[tuple[str, int]]:
    """Return by `connection` the `limit` most frequent values of the label `key` with their image counts."""
    require_other_keys([key])
    count = func.count()
    query = select(labels.c.value, count).where(labels.c.key == key).group_by(labels.c.value)
    rows = connection.execute(query.order_by(count.desc(), labels.c.value).limit(limit))
    return [(value, number) for value, number in rows]


def numeric_values(connection: Connection, key: str) -> dict[str, float]:
    """Return the value of a label for every image where it is a finite number, by image id."""
    require_other_keys([key])
    query = select(images.c.image_id, func.as_number(labels.c.value)).join(labels).where(labels.c.key == key)
    return {image_id: value for image_id, value in connection.execute(query) if value is not None}
