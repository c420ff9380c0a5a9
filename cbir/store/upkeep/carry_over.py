"""Carry images over to a collection of another profile: everything but their vectors, under the same numbers and ids.

The target can be searched and is complete for the images that it has at any time. Nothing is written to the source.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, select

from cbir.errors import CollectionBusy, InvalidInput
from cbir.store.base import metadata, stored_models
from cbir.store.base.collection_folder import folder_mode
from cbir.store.base.profile import Profile, vector_format
from cbir.store.base.schema import forgotten, images, instance_copies, original_files, vectors
from cbir.store.base.statements import vector_checksum
from cbir.store.collection import Collection
from cbir.store.records import add_transaction, image_rows, originals
from cbir.store.records.image_rows import batches, delete_images, rows_matching, store_erased_marks
from cbir.store.records.record_rows import numbers_where
from cbir.store.safety import change_log
from cbir.store.safety.row_damage import require_sound_rows
from cbir.store.snapshot import derived_files
from cbir.store.snapshot.stored_snapshot import forget_snapshot, note_erasure, note_renumbering
from cbir.store.upkeep import carried_history, carried_rows
from cbir.store.upkeep.carried_history import (
    AbsentImages,
    Erasures,
    drop_restored_marks,
    erased_marks,
    note_mirrored,
    read_erasures,
    sort_absent,
)
from cbir.store.upkeep.carried_rows import drop_decided, missing_in_quarantine, quarantine_described
from cbir.store.writing.creation import COLLECTION_ID
from cbir.store.writing.writer import Writer
from cbir.system.files import copy_file, sync_folder
from cbir.system.ownership import make_folder

PAGE = 2000  # images compared at a time
ATTEMPTS = 3  # to follow a source that others write to


@dataclass(frozen=True)
class SourceImage:
    """An image that the target lacks. source: the file or object to describe it from, which need not exist."""

    number: int
    image_id: str
    content_hash: str
    source: str
    is_upload: bool


@dataclass
class Carried:
    """Counts of `CarryOver.update`. removed: images deleted or erased in the source since; updated: changed."""

    removed: int = 0
    updated: int = 0


def open_counterpart(source: Collection, folder: Path, profile: Profile) -> Collection:
    """Open the collection that the images of another are carried over to, or create it with the same patient key.

    Parameters
    ----------
    source : Collection
        The other collection.
    folder : Path
        Folder of the target.
    profile : Profile
        Its profile.

    Raises
    ------
    InvalidInput
        If the folder holds the source, or a collection with another profile or patient key, or either profile
        describes CT series.
    """
    if source.profile.volume_grid or profile.volume_grid:
        raise InvalidInput("CT series cannot be described again from a collection; index their folders again")
    if not Collection.exists(folder):
        return Collection.create(folder, profile, source.secret)
    target = Collection(folder)
    try:
        if target.folder.samefile(source.folder) or _same_database(source, target):
            raise InvalidInput(f"{folder} is the collection itself; name another folder")
        if target.secret != source.secret:
            raise InvalidInput(f"{folder} holds a collection with another patient key; name another folder")
        if target.profile.hash != profile.hash:
            raise InvalidInput(
                f"{folder} has profile {target.profile.name} (hash {target.profile.hash}), not {profile.name} "
                f"(hash {profile.hash}); name another folder"
            )
    except BaseException:
        target.close()
        raise
    return target


def _same_database(source: Collection, target: Collection) -> bool:
    """Return whether two collections are one in PostgreSQL, perhaps by addresses that differ."""
    if source.is_local or target.is_local:
        return False
    ids = [collection._read(metadata.required_value, COLLECTION_ID) for collection in (source, target)]
    return ids[0] == ids[1]


class CarryOver:
    """Carries the images of `source` over to `target`, which `writer` writes to."""

    def __init__(self, source: Collection, target: Collection, writer: Writer) -> None:
        """Raise InvalidInput if the target has changes of its own, CollectionDamaged if rows of the source are."""
        self._source, self._target, self._writer = source, target, writer
        self._format = vector_format(target.profile)
        self.erased_in_target: list[str] = []
        self._erasures = Erasures(target.folder)
        self.kept: list[str] = []  # ids of images that only the target has
        with source._engine.connect() as reader, target._engine.connect() as connection:
            carried_history.require_no_own_changes(reader, connection)
            require_sound_rows(reader)

    def missing(self) -> int:
        """Return the number of images that the target lacks."""
        return len(self._missing_numbers())

    def missing_images(self) -> Iterator[SourceImage]:
        """Yield the images that the target lacks; the ids of those erased there go to `erased_in_target`."""
        with self._source._engine.connect() as reader, self._target._engine.connect() as connection:
            self._erasures = read_erasures(reader, connection, self._target.folder)
        numbers = self._missing_numbers()
        for start in range(0, len(numbers), PAGE):
            page = self._source.records(numbers[start : start + PAGE].tolist())
            covered = self._erasures.covered({record.content_hash for record in page.values()})
            for number, record in page.items():
                if record.content_hash in covered:
                    self.erased_in_target.append(record.image_id)
                    continue
                stored = originals.original_path(self._source.folder, record.source)
                source = str(stored or record.source)
                yield SourceImage(number, record.image_id, record.content_hash, source, stored is not None)

    def add(self, described: Mapping[int, NDArray[np.float32]]) -> int:
        """Add images by number with their new raw vectors (d,), in one transaction; return how many there were.

        Images deleted in the source meanwhile are left out.
        """
        encoded = {number: self._format.encode(vector) for number, vector in described.items()}
        with self._source._engine.connect() as reader, self._target._engine.begin() as connection:
            if encoded:
                self._let_views_see(connection, min(encoded))
            added = carried_rows.insert_images(reader, connection, encoded, self._erasures)
            self._copy_originals(reader, connection, {source for _, source in added})
            if added:
                metadata.bump_generation(connection)
        return len(added)

    def missing_in_quarantine(self) -> list[tuple[str, str]]:
        """Return ids and files or objects of quarantined images that the target lacks, in the order of these."""
        with self._source._engine.connect() as reader, self._target._engine.connect() as connection:
            erasures = read_erasures(reader, connection, self._target.folder)
            rows = missing_in_quarantine(reader, connection, erasures)
        folder = self._source.folder
        return [
            (image_id, str(originals.original_path(folder, source) or source)) for image_id, source in rows
        ]

    def quarantine(self, described: Mapping[str, NDArray[np.float32]]) -> int:
        """Quarantine images by id with their new raw vectors (d,); return how many there were."""
        with self._source._engine.connect() as reader, self._target._engine.begin() as connection:
            return quarantine_described(reader, connection, described, self._copy_originals)

    def _let_views_see(self, connection: Connection, first: int) -> None:
        """Drop the snapshot if an image is to get a number that comes before others.

        Views read images after the snapshot, and the latest after those that they have read; vector indexes do the
        same. `Writer.finish` writes another snapshot.
        """
        if first <= image_rows.last_number(connection):
            forget_snapshot(connection, self._target.folder)
            note_renumbering(connection)

    def update(self) -> Carried:
        """Carry over what has been changed, deleted and erased in the source since the last time.

        Raises CollectionBusy if a reader of the target keeps erased images in its files; then run it again.
        """
        total = Carried()
        for _ in range(ATTEMPTS):
            generation = self._source.generation()
            carried = self._update_once()
            total.removed += carried.removed
            total.updated += carried.updated
            if self._source.generation() == generation:
                break
        return total

    def finish(self) -> None:
        """End a run that was not interrupted: the target uses no image number of the source for another image.

        Copies the replies to requests that must not be carried out twice. Copies the ranker of severity, which was
        learned from pictures and not from vectors, if there is none yet; but not after erasing patients in the target
        alone, from whom it may have learned.
        """
        with self._source._engine.connect() as reader, self._target._engine.begin() as connection:
            last = carried_history.last_number(reader, images.name)
            carried_history.raise_last_number(connection, images.name, last)
            add_transaction.copy_replies(reader, connection, self._left_out)
            own_marks = erased_marks(connection) - erased_marks(reader)
        if not own_marks and not (self._target.folder / stored_models.SEVERITY_FOLDER).exists():
            stored_models.copy_severity_model(self._source.folder, self._target.folder)

    def _update_once(self) -> Carried:
        with self._source._engine.connect() as reader:
            theirs = numbers_where(reader)
            with self._target._engine.begin() as connection:
                drop_restored_marks(reader, connection)
            with self._target._engine.connect() as connection:
                marks = erased_marks(reader) - erased_marks(connection)
                self._erasures = read_erasures(reader, connection, self._target.folder)
                ours = np.setdiff1d(self._target.matching_numbers([]), theirs).tolist()
                absent = sort_absent(reader, connection, self._target.folder, ours, marks)
                kept = {row.number for row in absent.kept}
                lists = forgotten, instance_copies
                surplus = any(carried_rows.has_surplus(reader, connection, table, kept) for table in lists)
            self.kept = [row.image_id for row in absent.kept]
            if marks or surplus:  # these rows name patients
                self._drop_copy()
            self._remove_images(absent)
            self._drop_decided(reader)
            carried = Carried(len(absent.gone), self._move_images(reader, absent.moved))
            numbers = np.intersect1d(theirs, self._target.matching_numbers([]))
            for start in range(0, len(numbers), PAGE):
                carried.updated += self._update_page(reader, numbers[start : start + PAGE].tolist())
            with self._target._engine.begin() as connection:
                if carried_rows.mirror_forgotten(reader, connection, self._erasures) or carried.updated:
                    metadata.bump_generation(connection)
                carried_history.mirror_history(reader, connection, self._erasures.covered_ids)
            if marks:
                self._drop_learned()
            if marks or surplus:
                self._compact()
            with self._target._engine.begin() as connection:  # last: until then the next run does it again
                carried_rows.copy_marks(reader, connection, marks)
                note_mirrored(reader, connection, marks)
        return carried

    def _drop_copy(self) -> None:
        if self._target.is_local:
            self._writer.drop_copy()

    def _update_page(self, reader: Connection, numbers: list[int]) -> int:
        with self._target._engine.begin() as connection:
            updated = carried_rows.update_images(reader, connection, numbers, self._erasures)
            query = select(images.c.source).where(
                images.c.number.in_(numbers), images.c.source.startswith(originals.UPLOAD)
            )
            self._copy_originals(reader, connection, set(connection.scalars(query)))
        return updated

    def _remove_images(self, absent: AbsentImages) -> None:
        """Delete images that were deleted or erased in the source."""
        if not absent.gone:
            return
        self._writer.delete_in_copy([row.image_id for row in absent.gone])
        with self._target._engine.begin() as connection:
            delete_images(connection, [row.number for row in absent.gone])
            store_erased_marks(connection, absent.unmarked, self._target.folder)
            unused = originals.forget_sources(connection, {row.source for row in absent.gone})
            metadata.bump_generation(connection)
        originals.erase_unused(self._target._engine, self._target.folder, unused)

    def _drop_decided(self, reader: Connection) -> None:
        with self._target._engine.begin() as connection:
            sources = drop_decided(reader, connection, self._source.folder)
            unused = originals.forget_sources(connection, sources)
        originals.erase_unused(self._target._engine, self._target.folder, unused)

    def _move_images(self, reader: Connection, moved: list[tuple[Row[Any], int]]) -> int:
        """Give images the numbers that they have in the source; they keep their vectors."""
        if not moved:
            return 0
        with self._target._engine.begin() as connection:
            old = [row.number for row, _ in moved]
            query = select(vectors.c.number, vectors.c.vector, vectors.c.checksum)
            stored = {
                row.number: row.vector
                for some in batches(old)
                for row in connection.execute(query.where(vectors.c.number.in_(some)))
                if row.checksum == vector_checksum(row.number, row.vector)  # else it is described again
            }
            self._let_views_see(connection, min(number for _, number in moved))
            delete_images(connection, old)
            renumbered = {number: stored[row.number] for row, number in moved if row.number in stored}
            added = carried_rows.insert_images(reader, connection, renumbered, self._erasures)
            self._copy_originals(reader, connection, {source for _, source in added})
            metadata.bump_generation(connection)
        return len(added)

    def _drop_learned(self) -> None:
        """Delete what may have been learned from erased images, as erasing a patient does."""
        stored_models.drop_severity_model(self._target.folder)
        with self._target._engine.begin() as connection:
            add_transaction.delete_replies(connection)
            change_log.stop_log(connection)
            metadata.delete_grade_models(connection)
            metadata.bump_generation(connection)

    def _compact(self) -> None:
        """Rebuild all files without the rows that were deleted."""
        with self._target._engine.begin() as connection:
            metadata.bump_generation(connection)
            note_erasure(connection)
        derived_files.drop_neighbours(self._target.folder)
        if not self._writer.rebuild_without_erased():
            raise CollectionBusy(
                f"patients were erased, but a reader of {self._target.folder} still holds old pages of its database; "
                "run the same command again when it has ended"
            )

    def _copy_originals(self, reader: Connection, connection: Connection, sources: set[str]) -> None:
        """Copy the stored originals of these sources that the target does not have, and note them."""
        names = {
            source.removeprefix(originals.UPLOAD) for source in sources if source.startswith(originals.UPLOAD)
        }
        column = original_files.c.name
        noted = {row[0] for row in rows_matching(reader, [column], column, names)}
        noted -= {row[0] for row in rows_matching(connection, [column], column, noted)}
        target = self._target.folder / originals.FOLDER
        if noted:
            make_folder(target, folder_mode(self._target.folder), exist_ok=True)
        for name in sorted(noted):
            original = self._source.folder / originals.FOLDER / name
            if original.exists() and not (target / name).exists():
                _link_or_copy(original, target / name)
        if noted:
            sync_folder(target)
            originals.note_originals(connection, [originals.UPLOAD + name for name in sorted(noted)])

    def _left_out(self, contents: Iterable[str]) -> set[str]:
        """Return those of the content hashes that are erased in the target, or could not be described for it."""
        missing = self._source.records(self._missing_numbers().tolist()).values()
        return self._erasures.covered(contents) | {record.content_hash for record in missing}.intersection(
            contents
        )

    def _missing_numbers(self) -> NDArray[np.int64]:
        return np.setdiff1d(self._source.matching_numbers([]), self._target.matching_numbers([]))


def _link_or_copy(original: Path, target: Path) -> None:
    """Link a file that is never changed in place; copy it where the file system has no links."""
    try:
        os.link(original, target)
    except OSError:
        copy_file(original, target, stat.S_IMODE(original.stat().st_mode))
