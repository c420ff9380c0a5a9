"""Reading of a quarantine, and its ends: images are released into the collection, or refused."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from cbir.errors import CbirError
from cbir.store.base.damage import DAMAGE
from cbir.store.base.schema import (
    DATABASE,
    connect,
    delete_quarantined,
    forgotten,
    has_quarantine,
    quarantine,
    quarantined_of,
)
from cbir.store.base.statements import insert_missing, with_checksum
from cbir.store.collection import Collection
from cbir.store.records import originals
from cbir.store.records.add_transaction import Added, AddTransaction
from cbir.store.records.image_rows import rows_matching
from cbir.store.records.quarantine import (
    QuarantinedImage,
    list_quarantined,
    not_quarantined,
    quarantined_entries,
    quarantined_picture,
)
from cbir.store.records.records import FINDINGS_LABEL
from cbir.store.safety import last_good
from cbir.store.safety.database_files import require_sound_log
from cbir.store.writing.writer import Writer


def release_images(writer: Writer, image_ids: Sequence[str]) -> Added:
    """Add quarantined images to the collection, without the label `intake`, in one transaction.

    Raises NotFound, and adds none, if one is not in quarantine.
    """
    with writer._engine.connect() as connection:
        entries, pictures = quarantined_entries(connection, image_ids)
    released = [
        (
            replace(
                record, labels={key: value for key, value in record.labels.items() if key != FINDINGS_LABEL}
            ),
            vector,
        )
        for record, vector in entries
    ]

    def attach(transaction: AddTransaction, added: Added) -> None:
        thumbnails = {
            added.numbers[image_id]: pictures[record.content_hash]
            for (record, _), (kind, image_id) in zip(released, added.outcomes, strict=True)
            if kind == "added" and image_id and pictures[record.content_hash]
        }
        transaction.store_thumbnails(thumbnails)

    return writer.add(released, release=True, in_transaction=attach)


def refuse_images(writer: Writer, image_ids: Sequence[str]) -> None:
    """Delete quarantined images, so that indexing does not bring them back. Raises NotFound if one is missing."""
    with writer._engine.begin() as connection:
        c = quarantine.c
        columns = (c.image_id, c.source, c.patient_key)
        rows = []
        if has_quarantine(connection):
            rows = rows_matching(connection, columns, c.image_id, image_ids)
        if missing := sorted(set(image_ids) - {row.image_id for row in rows}):
            raise not_quarantined(missing[0])
        at = datetime.now(UTC).isoformat(timespec="seconds")
        contents = [
            with_checksum(forgotten, {"content_hash": row.image_id, "patient_key": row.patient_key, "at": at})
            for row in rows
        ]
        insert_missing(connection, forgotten, contents)
        delete_quarantined(connection, c.image_id, [row.image_id for row in rows])
        unused = originals.forget_sources(connection, {row.source for row in rows})
    originals.erase_unused(writer._engine, writer.folder, unused)
    _refuse_in_copy(writer, image_ids)


def _refuse_in_copy(writer: Writer, image_ids: Sequence[str]) -> None:
    """Refuse images in the last good copy too, if it has them; drop the copy if that fails, as `delete_in_copy`."""
    last_good.finish_replacement(writer.folder)
    copy = writer.folder / last_good.NAME
    if not (copy / DATABASE).is_file():
        return
    engine = connect(copy)
    try:
        require_sound_log(copy)
        with engine.connect() as connection:
            c = quarantine.c.image_id
            known = rows_matching(connection, [c], c, image_ids) if has_quarantine(connection) else []
        if known:
            last_good.before_change(writer.folder)
            refuse_images(Writer(copy, engine, writer.who), [row.image_id for row in known])
    except (*DAMAGE, CbirError):
        writer.drop_copy()
    finally:
        engine.dispose()


def read_quarantined(collection: Collection, after: str = "", limit: int = 1000) -> list[QuarantinedImage]:
    """Return the first `limit` quarantined images of a collection whose id is greater than `after`, by id."""
    with collection._engine.connect() as connection:
        return list_quarantined(connection, after, limit)


def read_quarantined_picture(collection: Collection, image_id: str) -> bytes:
    """Return the thumbnail of a quarantined image, JPEG. Raises NotFound."""
    with collection._engine.connect() as connection:
        return quarantined_picture(connection, image_id)


def count_of_patients(collection: Collection, patient_keys: Sequence[str]) -> int:
    """Return the number of quarantined images of the patients with these keys."""
    with collection._engine.connect() as connection:
        return len(quarantined_of(connection, patient_keys))
