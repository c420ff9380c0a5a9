"""Deletion of images and erasure of patients, by the holder of a collection's lock."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import select

from cbir.errors import CbirError, CollectionBusy
from cbir.store.base import metadata, schema
from cbir.store.base.checksums import with_checksum
from cbir.store.base.schema import forgotten, images
from cbir.store.base.statements import insert_missing
from cbir.store.erasure.erasure import erase_rows, require_others_sound
from cbir.store.records import change_history, originals
from cbir.store.records.database import is_sqlite
from cbir.store.records.image_rows import delete_images, rows_matching
from cbir.store.safety import change_log, last_good
from cbir.store.safety.damage import DAMAGE
from cbir.store.safety.quarantine_table import quarantined_of
from cbir.store.safety.write_ahead_log import require_sound_log
from cbir.store.snapshot import audit_file, map_file, neighbour_files
from cbir.store.snapshot.stored_snapshot import note_erasure
from cbir.store.views import index_build
from cbir.store.views.compaction import compact_files
from cbir.store.writing.label_writer import LabelWriter


class ImageRemover(LabelWriter):
    """Deletes images, and erases patients from all files."""

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
                change_history.record_change(connection, self.who, "deleted", len(deleted), deleted)
                metadata.bump_generation(connection)
            unused = originals.forget_sources(connection, {row.source for row in rows})
            logged = change_log.is_logged(connection)
        if not logged:  # else the backup has to get them first
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
        """Return the ids of a patient's images, in the order in which they were added."""
        query = select(images.c.image_id).where(images.c.patient_key == patient_key).order_by(images.c.number)
        with self._engine.connect() as connection:
            return list(connection.scalars(query))

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
                change_history.record_change(connection, self.who, "erased", count)
            metadata.bump_generation(connection)
            note_erasure(connection)
        originals.erase_unused(self._engine, self.folder, unused)
        audit_file.drop_audit_file(self.folder)
        map_file.drop_map(self.folder)  # also one that a job has written since the transaction began
        neighbour_files.drop_neighbours(self.folder)
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
            refit = not index_build.statistics_outlive_erasure(self._engine)
            return compact_files(self.folder, self._engine, refit)

    def compact(
        self, refit: bool = False, history_days: int | None = None, deleted_days: int | None = None
    ) -> bool:
        """Write a snapshot without deleted images and free unused space; see `compact_files`."""
        with self._files():
            return compact_files(self.folder, self._engine, refit, history_days, deleted_days)
