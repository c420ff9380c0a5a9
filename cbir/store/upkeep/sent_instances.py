"""DICOM instances that were sent or fetched, as the collection has them: what an archive is compared with."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from cbir.store.base.schema import images, instance_copies
from cbir.store.collection import Collection
from cbir.store.records.image_rows import batches, rows_matching
from cbir.store.records.originals import UPLOAD


@dataclass(frozen=True)
class StoredFrame:
    """An image that a frame of an instance shows. frame: from 1, None for the only one."""

    image_id: str
    frame: int | None
    content_hash: str
    patient_key: str | None


@dataclass(frozen=True)
class StoredInstance:
    """The images of an instance, in the order in which they were added."""

    study: str
    series: str
    instance: str
    frames: tuple[StoredFrame, ...]


@dataclass(frozen=True)
class StoredCopy:
    """An instance whose pixels an image of another instance shows."""

    instance: str
    patient_key: str | None
    content_hash: str


SENT = images.c.source.startswith(UPLOAD) & (images.c.instance != "") & (images.c.study != "")


def count_sent_instances(collection: Collection) -> int:
    """Return the number of instances with images that were sent or fetched."""
    with collection._engine.connect() as connection:
        return connection.scalar(select(func.count(images.c.instance.distinct())).where(SENT)) or 0


def sent_studies(collection: Collection, after: str, limit: int) -> list[str]:
    """Return the first `limit` studies of such instances in a `collection` with a UID after `after`, ascending."""
    c = images.c.study
    with collection._engine.connect() as connection:
        query = select(c).where(SENT, c > after).distinct().order_by(c).limit(limit)
        return list(connection.scalars(query))


def sent_instances(collection: Collection, study: str) -> dict[str, StoredInstance]:
    """Return the instances of a study that were sent or fetched, by UID."""
    with collection._engine.connect() as connection:
        return _instances(connection, study)


def _instances(connection: Connection, study: str) -> dict[str, StoredInstance]:
    c = images.c
    columns = c.series, c.instance, c.image_id, c.frame, c.content_hash, c.patient_key
    query = select(*columns).where(SENT, c.study == study).order_by(c.number)
    series: dict[str, str] = {}
    frames: dict[str, list[StoredFrame]] = defaultdict(list)
    for row in connection.execute(query):
        series[row.instance] = row.series
        frames[row.instance].append(StoredFrame(row.image_id, row.frame, row.content_hash, row.patient_key))
    return {uid: StoredInstance(study, series[uid], uid, tuple(of)) for uid, of in frames.items()}


def stored_copies(collection: Collection, after: str, limit: int) -> list[StoredCopy]:
    """Return the first `limit` copies of a `collection` with a SOP Instance UID after `after`, ascending."""
    c = instance_copies.c
    columns = c.instance, c.patient_key, images.c.content_hash
    query = select(*columns).join(images, images.c.number == c.number).where(c.instance > after)
    with collection._engine.connect() as connection:
        rows = connection.execute(query.order_by(c.instance).limit(limit))
        return [StoredCopy(*row) for row in rows]


def images_with_copies(collection: Collection, image_ids: Sequence[str]) -> set[str]:
    """Return those of the images whose pixels another instance shows too."""
    c = images.c
    with collection._engine.connect() as connection:
        rows = rows_matching(connection, (c.image_id, c.number), c.image_id, image_ids)
        numbers = {row.number: row.image_id for row in rows}
        query = select(instance_copies.c.number).distinct()
        return {
            numbers[number]
            for batch in batches(list(numbers))
            for number in connection.scalars(query.where(instance_copies.c.number.in_(batch)))
        }


def images_with_pixels_of(collection: Collection, patient_keys: list[str]) -> list[str]:
    """Return the ids of other patients' images that show the pixels of an instance of these patients."""
    c = instance_copies.c
    query = select(images.c.image_id).join(instance_copies, images.c.number == c.number).distinct()
    query = query.where(
        c.patient_key.in_(patient_keys),
        images.c.patient_key.is_(None) | images.c.patient_key.not_in(patient_keys),
    )
    with collection._engine.connect() as connection:
        return sorted(connection.scalars(query))
