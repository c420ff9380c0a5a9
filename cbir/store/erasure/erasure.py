"""Removal of a patient's rows from the database."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, delete, select

from cbir.errors import CollectionDamaged
from cbir.store.base import severity_model
from cbir.store.base.restore_advice import restore_advice
from cbir.store.base.schema import changed_images, forgotten, images, instance_copies
from cbir.store.records import change_history, grade_models, idempotency
from cbir.store.records.image_rows import delete_images, delete_rows, store_erased_marks
from cbir.store.safety import change_log
from cbir.store.safety.quarantine_table import delete_quarantined, quarantine, quarantined_of
from cbir.store.safety.row_damage import row_problems
from cbir.store.safety.row_totals import store_totals
from cbir.store.snapshot import audit_file, map_file, neighbour_files, region_cells


def require_others_sound(connection: Connection, folder: Path, keys: Sequence[str]) -> None:
    """Raise CollectionDamaged if rows of images are damaged, apart from those of the patients with these `keys`.

    Erasing drops the last good copy, which may be what restores them.
    """
    (report,) = connection.exec_driver_sql("PRAGMA quick_check(1)").one()
    if report != "ok":
        raise CollectionDamaged(f"the database is damaged ({report}); {restore_advice(folder)}")
    numbers = connection.scalars(select(images.c.number).where(images.c.patient_key.in_(keys))).all()
    if problems := row_problems(connection, apart_from=numbers):
        raise CollectionDamaged("; ".join(problems))


def erase_rows(connection: Connection, keys: Sequence[str], folder: Path) -> int:
    """Delete all rows of patients and what was learned from them; return the number of images, also in quarantine.

    Of the content only keyed hashes remain, so that indexing the same files does not bring the images back.

    Parameters
    ----------
    connection : Connection
    keys : sequence of str
        Keys of the patients.
    folder : Path
        Folder of the collection.
    """
    columns = images.c.number, images.c.image_id, images.c.content_hash
    rows = connection.execute(select(*columns).where(images.c.patient_key.in_(keys))).all()
    earlier = select(forgotten.c.content_hash).where(forgotten.c.patient_key.in_(keys))
    deleted = connection.scalars(earlier).all()
    copies = select(instance_copies.c.instance).where(instance_copies.c.patient_key.in_(keys))
    instances = connection.scalars(copies).all()  # so that another collection does not bring them back
    held = [image_id for image_id, _ in quarantined_of(connection, keys)]
    contents = [*deleted, *(row.content_hash for row in rows), *held]
    store_erased_marks(connection, [*contents, *instances], folder)
    map_file.drop_map(folder)
    neighbour_files.drop_neighbours(folder)
    audit_file.drop_audit_file(folder)
    region_cells.drop_cells(folder)
    delete_quarantined(connection, quarantine.c.patient_key, keys)
    delete_images(connection, [row.number for row in rows])
    delete_rows(connection, changed_images.c.image_id, [row.image_id for row in rows])
    delete_rows(connection, instance_copies.c.patient_key, keys)
    change_history.forget_content(connection, deleted)
    connection.execute(delete(forgotten).where(forgotten.c.patient_key.in_(keys)))
    idempotency.delete_replies_naming(connection, contents)
    change_log.stop_log(connection)
    store_totals(connection)  # the patient's own rows may have been damaged
    if rows:
        severity_model.drop_severity_model(folder)
        grade_models.delete_grade_models(connection)
    return len(rows) + len(held)
