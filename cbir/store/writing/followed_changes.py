"""Changes of DICOM instances that a collection follows: today's patient, and instances that are no longer there."""

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection, delete, select

from cbir.store.base import metadata
from cbir.store.base.checksums import with_checksum
from cbir.store.base.schema import images, instance_copies, labels, original_files
from cbir.store.base.statements import insert_missing
from cbir.store.records import change_history, originals, quarantine
from cbir.store.records.image_rows import batches, rows_matching, update_images
from cbir.store.records.label_changes import change_labels
from cbir.store.records.records import OF_PATIENT, STUDY_DATE, Record, stored_labels
from cbir.store.safety import change_log
from cbir.store.writing.writer import Writer


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
        change_history.record_change(connection, writer.who, "labelled", len(ids), ids)
        metadata.bump_generation(connection)
        unused = originals.forget_sources(connection, sources)
        logged = change_log.is_logged(connection)
    if not logged:  # else the backup has to get them first
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
