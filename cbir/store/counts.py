"""Counts of what a collection holds."""

from typing import Any

from sqlalchemy import Connection, func, select

from cbir.store.schema import images, labels

VALUES = 100  # of one label that are told, the most frequent


def count(connection: Connection) -> dict[str, Any]:
    """images, patients, without_patient; formats: images by format; labels: images by value, by key."""
    whole = select(
        func.count(), func.count(images.c.patient_key), func.count(images.c.patient_key.distinct())
    )
    total, with_patient, patients = connection.execute(whole.select_from(images)).one()
    by_format = select(images.c.format, func.count()).group_by(images.c.format).order_by(images.c.format)
    number = func.count().label("number")
    place = func.row_number().over(partition_by=labels.c.key, order_by=(func.count().desc(), labels.c.value))
    grouped = select(labels.c.key, labels.c.value, number, place.label("place"))
    ranked = grouped.group_by(labels.c.key, labels.c.value).subquery()
    frequent = select(ranked).where(ranked.c.place <= VALUES).order_by(ranked.c.key, ranked.c.place)
    values: dict[str, dict[str, int]] = {}
    for row in connection.execute(frequent):
        values.setdefault(row.key, {})[row.value] = row.number
    return {
        "images": total,
        "patients": patients,
        "without_patient": total - with_patient,
        "formats": dict(connection.execute(by_format).all()),
        "labels": values,
    }
