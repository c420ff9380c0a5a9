"""Deletion of images, erasure of patients, and compaction, by the holder of a collection's lock."""

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, delete, func, select, text

from cbir.errors import CbirError, CollectionBusy, CollectionDamaged
from cbir.store.base import metadata, schema, stored_models
from cbir.store.base.damage import DAMAGE, restore_advice, store_totals
from cbir.store.base.schema import (
    changed_images,
    delete_quarantined,
    forgotten,
    images,
    instance_copies,
    quarantine,
    quarantined_of,
)
from cbir.store.base.statements import insert_missing, with_checksum
from cbir.store.postgresql import postgresql_schema
from cbir.store.postgresql.postgresql_database import Database, connect_once, is_sqlite
from cbir.store.records import add_transaction, label_changes, originals
from cbir.store.records.image_rows import delete_images, delete_rows, rows_matching, store_erased_marks
from cbir.store.safety import change_log, last_good
from cbir.store.safety.database_files import require_sound_log
from cbir.store.safety.row_damage import row_problems
from cbir.store.snapshot import derived_files
from cbir.store.snapshot.stored_snapshot import note_erasure
from cbir.store.views import snapshot_build
from cbir.store.writing.label_writer import LabelWriter

CONTENT_DIGITS = 32  # of the hash of its content, with which the id of an image begins


def compact_files(
    folder: Path,
    database: Database,
    refit: bool = False,
    history_days: int | None = None,
    deleted_days: int | None = None,
) -> bool:
    """Write a snapshot without deleted images and free unused space.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    database : Database
        Its database.
    refit : bool
        Fit new statistics.
    history_days : int, optional
        Days of the history to keep; all by default.
    deleted_days : int, optional
        Days after which deleted images may be added again; never by default.

    Returns
    -------
    bool
        False if a reader still holds old pages of the database, so that not all was written back.

    Raises
    ------
    CollectionDamaged
        If rows do not match their checksums; the snapshot and the last good copy stay as they are.
    """
    with database.begin() as connection:
        originals.forget_unused(connection)
        if history_days is not None:
            label_changes.prune_changes(connection, history_days)
        if deleted_days is not None:
            label_changes.prune_deletions(connection, deleted_days)
    snapshot_build.rebuild_snapshot(folder, database, refit)
    with database.connect() as connection:
        logged = change_log.is_logged(connection)
    if not logged:  # else the backup has to get them first
        originals.sweep_unused(database, folder)
    if not is_sqlite(database):
        with connect_once(database) as connection:
            connection.execute(text(f"VACUUM {', '.join(postgresql_schema.tables.tables)}"))
        return True
    with closing(database.raw_connection()) as raw_connection:  # neither may run inside a transaction
        raw_connection.cursor().execute("VACUUM")
        (busy, *_) = raw_connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


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
    derived_files.drop_map(folder)
    derived_files.drop_neighbours(folder)
    derived_files.drop_audit_file(folder)
    derived_files.drop_cells(folder)
    delete_quarantined(connection, quarantine.c.patient_key, keys)
    delete_images(connection, [row.number for row in rows])
    delete_rows(connection, changed_images.c.image_id, [row.image_id for row in rows])
    delete_rows(connection, instance_copies.c.patient_key, keys)
    label_changes.forget_content(connection, deleted)
    connection.execute(delete(forgotten).where(forgotten.c.patient_key.in_(keys)))
    add_transaction.delete_replies_naming(connection, contents)
    change_log.stop_log(connection)  # before `forget_sources`, which erases nothing while changes are logged
    store_totals(connection)  # the patient's own rows may have been damaged
    if rows:
        stored_models.drop_severity_model(folder)
        metadata.delete_grade_models(connection)
    return len(rows) + len(held)


class ImageRemover(LabelWriter):
    """Deletes images, and erases patients from all files."""

    def existing_images(self, image_ids: Sequence[str]) -> list[str]:
        """Return those of `image_ids` that the collection holds."""
        with self._engine.connect() as connection:
            rows = rows_matching(connection, (images.c.image_id,), images.c.image_id, image_ids)
        return [row.image_id for row in rows]

    def delete(self, image_ids: Sequence[str]) -> list[str]:
        """Delete images, so that indexing does not add them again; return the ids that existed."""
        self.delete_in_copy(image_ids)  # first: the copy must never show an image that is deleted here
        with self._engine.begin() as connection:
            c = images.c
            columns = (c.number, c.image_id, c.content_hash, c.source, c.patient_key)
            rows = rows_matching(connection, columns, c.image_id, image_ids)
            deleted = [row.image_id for row in rows]
            if rows:
                at = datetime.now(UTC).isoformat(timespec="seconds")
                contents = [
                    with_checksum(
                        forgotten,
                        {"content_hash": row.content_hash, "patient_key": row.patient_key, "at": at},
                    )
                    for row in rows
                ]
                insert_missing(connection, forgotten, contents)
                delete_images(connection, [row.number for row in rows])
                label_changes.record_change(connection, self.who, "deleted", len(deleted), deleted)
                metadata.bump_generation(connection)
            unused = originals.forget_sources(connection, {row.source for row in rows})
        originals.erase_unused(self._engine, self.folder, unused)
        return deleted

    def delete_in_copy(self, image_ids: Sequence[str]) -> None:
        """Delete images from the last good copy too; drop the copy if that fails, unless only the copy is sound."""
        last_good.finish_replacement(self.folder)
        copy = self.folder / last_good.NAME
        if not image_ids or not (copy / schema.DATABASE).is_file():
            return
        engine = schema.connect(copy)
        try:
            require_sound_log(copy)
            last_good.before_change(self.folder)
            ImageRemover(copy, engine, self.who).delete(image_ids)
        except (*DAMAGE, CbirError):
            self.drop_copy()
        finally:
            engine.dispose()

    def drop_copy(self, keys: Sequence[str] = ()) -> None:
        """Delete the last good copy of a sound collection; `keys`: of patients whose own rows may be damaged.

        Raises CollectionDamaged if others are: the copy may be what restores them.
        """
        with self._engine.connect() as connection:
            require_others_sound(connection, self.folder, keys)
        last_good.drop_last_good(self.folder)

    def images_of(self, patient_key: str) -> list[str]:
        """Return the ids of a patient's images in the order in which they were added, then those of deleted ones."""
        query = select(images.c.image_id).where(images.c.patient_key == patient_key).order_by(images.c.number)
        content = func.substr(changed_images.c.image_id, 1, CONTENT_DIGITS)
        copies = select(changed_images.c.image_id).join(forgotten, content == forgotten.c.content_hash)
        of_patient = forgotten.c.patient_key == patient_key
        with self._engine.connect() as connection:
            present = list(connection.scalars(query))
            deleted = set(connection.scalars(select(forgotten.c.content_hash).where(of_patient)))
            deleted.update(connection.scalars(copies.where(of_patient)))
        others = self.existing_images(list(deleted))  # of patients with the same pixels
        return [*present, *sorted(deleted.difference(others))]

    def erase_patient(self, keys: Sequence[str]) -> int:
        """Remove every trace of the patients with these `keys` from all files; return the number of images erased.

        The statistics are fitted again: the erased vectors could be computed from old statistics and all other
        vectors. Models fitted to grades and comparisons are deleted for the same reason. Raises CollectionBusy if a
        reader still holds old pages of the database; then call it again. Raises CollectionDamaged, and erases
        nothing, if rows of other images are damaged.
        """
        if is_sqlite(self._engine):
            self.drop_copy(keys)
        with self._engine.begin() as connection:
            sources = set(
                connection.scalars(select(images.c.source).where(images.c.patient_key.in_(keys)))
            ).union(source for _, source in quarantined_of(connection, keys))
            count = erase_rows(connection, keys, self.folder)
            unused = originals.forget_sources(connection, sources)
            if count:
                label_changes.record_change(connection, self.who, "erased", count)
            metadata.bump_generation(connection)
            note_erasure(connection)
        originals.erase_unused(self._engine, self.folder, unused)
        derived_files.drop_audit_file(self.folder)
        derived_files.drop_map(self.folder)  # also one that a job has written since the transaction began
        derived_files.drop_neighbours(self.folder)
        # Also without a matching image: an earlier attempt may have been interrupted.
        if not self.rebuild_without_erased():
            raise CollectionBusy(
                "the patient is erased, but a reader still holds old pages of the database; run the same command "
                "again when it has ended"
            )
        return count

    def rebuild_without_erased(self) -> bool:
        """Fit statistics and write files without erased images, once no other process writes files; see `compact`."""
        with self._files_when_free():
            refit = not snapshot_build.statistics_outlive_erasure(self._engine)
            return compact_files(self.folder, self._engine, refit)

    def compact(
        self, refit: bool = False, history_days: int | None = None, deleted_days: int | None = None
    ) -> bool:
        """Write a snapshot without deleted images and free unused space; see `compact_files`."""
        with self._files():
            return compact_files(self.folder, self._engine, refit, history_days, deleted_days)
