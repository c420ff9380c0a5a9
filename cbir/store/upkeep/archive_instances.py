"""DICOM instances of an archive that a collection follows: what it has of them, and their changes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, delete, func, select

from cbir.store.base import metadata
from cbir.store.base.schema import images, instance_copies, labels, original_files
from cbir.store.base.statements import insert_missing, with_checksum
from cbir.store.collection import Collection
from cbir.store.records import label_changes, originals, quarantine
from cbir.store.records.image_rows import batches, rows_matching, update_images
from cbir.store.records.label_changes import change_labels
from cbir.store.records.originals import UPLOAD
from cbir.store.records.records import OF_PATIENT, STUDY_DATE, Record, stored_labels
from cbir.store.writing.writer import Writer


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


def move_to_patient(writer: Writer, records: Mapping[str, Record], data: bytes) -> None:
    """Give images of one file the patient of their new records, in one transaction.

    What counts for one patient follows: age, sex, the day of the study, its shifted date where the image has one, and
    the time of the slice's acquisition. A stored original is replaced by the new file.

    Parameters
    ----------
    writer : Writer
    records : mapping of str to Record
        New records by image id.
    data : bytes
        The file as it is now.
    """
    c = images.c
    with writer._engine.begin() as connection:
        rows = rows_matching(connection, (c.image_id, c.number, c.source), c.image_id, records)
        dated = _numbers_with_date(connection, [row.number for row in rows])
        sources = {row.source for row in rows}
        if _has_originals(connection, sources):
            originals.note_originals(connection, [originals.store_original(writer.folder, data)])
        for row in rows:
            record = records[row.image_id]
            values = {"patient_key": record.patient_key, "source": record.source}
            update_images(connection, [row.number], values | {"source_stamp": record.source_stamp})
            new = stored_labels(record)
            facts: dict[str, str | None] = {
                key: new.get(key) for key in OF_PATIENT if key != STUDY_DATE or row.number in dated
            }
            change_labels(connection, [row.number], facts, writer.who)
        ids = [row.image_id for row in rows]
        label_changes.record_change(connection, writer.who, "labelled", len(ids), ids)
        metadata.bump_generation(connection)
        unused = originals.forget_sources(connection, sources)
    originals.erase_unused(writer._engine, writer.folder, unused)


def _numbers_with_date(connection: Connection, numbers: list[int]) -> set[int]:
    query = select(labels.c.number).where(labels.c.key == STUDY_DATE)
    return {
        number
        for batch in batches(numbers)
        for number in connection.scalars(query.where(labels.c.number.in_(batch)))
    }


def _has_originals(connection: Connection, sources: set[str]) -> bool:
    names = [source.removeprefix(originals.UPLOAD) for source in sources]
    return bool(rows_matching(connection, [original_files.c.name], original_files.c.name, names))


def move_copy(writer: Writer, instance: str, patient_key: str | None) -> None:
    """Give a copy, an instance whose pixels another image shows, another patient.

    Parameters
    ----------
    writer : Writer
    instance : str
        SOP Instance UID of the copy.
    patient_key : str or None
        Key of its patient.
    """
    with writer._engine.begin() as connection:
        query = select(instance_copies).where(instance_copies.c.instance == instance)
        row = connection.execute(query).mappings().first()
        if row is None:
            return
        connection.execute(delete(instance_copies).where(instance_copies.c.instance == instance))
        values = {name: row[name] for name in ("instance", "sop_class", "number")}
        insert_missing(
            connection,
            instance_copies,
            [with_checksum(instance_copies, values | {"patient_key": patient_key})],
        )
        metadata.bump_generation(connection)


def forget_copy(writer: Writer, instance: str) -> None:
    """Forget a copy, whose instance is gone or has other pixels now; the image stays."""
    with writer._engine.begin() as connection:
        connection.execute(delete(instance_copies).where(instance_copies.c.instance == instance))
        metadata.bump_generation(connection)


def move_quarantined(writer: Writer, image_id: str, now: Record) -> None:
    """Give a quarantined image another patient, and what counts for this one.

    Parameters
    ----------
    writer : Writer
    image_id : str
        Id of the image. Raises NotFound if it is not in quarantine.
    now : Record
        Record of the image as the archive has it.
    """
    with writer._engine.begin() as connection:
        ((record, vector),), pictures = quarantine.quarantined_entries(connection, [image_id])
        kept = {key: value for key, value in record.labels.items() if key not in OF_PATIENT}
        moved = replace(
            record,
            patient_key=now.patient_key,
            study_day=now.study_day,
            slice_place=now.slice_place,
            labels=kept | {key: value for key, value in now.labels.items() if key in OF_PATIENT},
        )
        quarantine.hold(connection, [(moved, vector)], pictures, writer.who)


def drop_quarantined(writer: Writer, image_id: str) -> None:
    """Take an image that is out of date out of quarantine; indexing adds it again."""
    with writer._engine.begin() as connection:
        quarantine.take_out(connection, [image_id])
