"""Counts and summary of a collection."""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select

from cbir.store.base import metadata
from cbir.store.base.profile import Profile
from cbir.store.base.reserved_labels import RESERVED
from cbir.store.base.schema import images, labels
from cbir.store.snapshot import stored_snapshot

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
        "bytes_on_disk": sum(_size(path) for path in folder.rglob("*")),
    }


def _size(path: Path) -> int:
    """Return the bytes of a file; 0 for folders, and for files that a writer has just removed."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
