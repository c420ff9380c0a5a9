"""Changes of labels, statistics and snapshot, written by the holder of a collection's lock."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from sqlalchemy import select

from cbir.store.base import metadata
from cbir.store.base.collection_folder import wait_for_writer, writer_lock
from cbir.store.base.normalisation import Statistics
from cbir.store.base.reserved_labels import SLICE_PLACE, STUDY_DAY, require_other_keys
from cbir.store.base.schema import images
from cbir.store.postgresql.postgresql_database import Database, is_sqlite
from cbir.store.records import label_changes, originals
from cbir.store.records.image_rows import ids_of, rows_matching, update_images
from cbir.store.records.label_changes import (
    DuplicateLabels,
    LabelConflict,
    add_missing_labels,
    change_labels,
    merge_duplicate,
    set_one_label,
    unplaced_sources,
    unplaced_uploads,
)
from cbir.store.records.records import parse_day
from cbir.store.views import snapshot_build


class DerivedFiles:
    """Writes the files derived from the database of the collection in `folder`.

    In SQLite, the holder of the writer lock may do so. In PostgreSQL it is taken here, and CollectionBusy raised if
    another process of this machine writes files.
    """

    def __init__(self, folder: Path, engine: Database) -> None:
        self.folder = folder
        self._engine = engine

    def finish(self) -> None:
        """End an indexing run: write a snapshot if there is none or too much has changed since."""
        outgrown = snapshot_build.statistics_are_outgrown(self._engine)
        if outgrown or snapshot_build.snapshot_is_stale(self.folder, self._engine):
            with self._files_when_free():
                if outgrown or snapshot_build.snapshot_is_stale(self.folder, self._engine):
                    snapshot_build.rebuild_snapshot(self.folder, self._engine, outgrown)

    def snapshot(self, refit: bool = False) -> None:
        """Rebuild the snapshot from the database and switch to it; `refit` fits new statistics."""
        with self._files():
            snapshot_build.rebuild_snapshot(self.folder, self._engine, refit)

    def adopt_statistics(self, statistics: Statistics, fitted_here: bool) -> None:
        """Normalise by `statistics`, until `snapshot` or `compact` fit new ones.

        `fitted_here`: they were fitted to images of this collection, so that erasing a patient fits new ones.
        """
        with self._files():
            adopted = snapshot_build.AdoptedStatistics(statistics, fitted_here)
            snapshot_build.rebuild_snapshot(self.folder, self._engine, adopted=adopted)

    def _files(self) -> AbstractContextManager[None]:
        """Hold the lock of the files: in SQLite, `Collection.writer` does. Raises CollectionBusy."""
        return nullcontext() if is_sqlite(self._engine) else writer_lock(self.folder)

    def _files_when_free(self) -> AbstractContextManager[None]:
        return nullcontext() if is_sqlite(self._engine) else wait_for_writer(self.folder)


class LabelWriter(DerivedFiles):
    """Sets labels of images. who: name in the history."""

    def __init__(self, folder: Path, engine: Database, who: str = "command line") -> None:
        super().__init__(folder, engine)
        self.who = who

    def set_labels(
        self,
        image_id: str,
        changed: dict[str, str | None],
        check: Callable[[], None] = lambda: None,
    ) -> bool:
        """Set labels of one image, and delete those that are None.

        Parameters
        ----------
        image_id : str
            Id of the image.
        changed : dict
            New values by label key.
        check : callable
            Called before, while no other process can write; an error that it raises leaves the labels as they are.

        Returns
        -------
        bool
            Whether anything changed.
        """
        return self.set_labels_of([image_id], changed, check)

    def set_labels_of(
        self,
        image_ids: Sequence[str],
        changed: Mapping[str, str | None],
        check: Callable[[], None] = lambda: None,
    ) -> bool:
        """Set `changed` labels of `image_ids` as `set_labels` does, in one change; `check` may refuse it first."""
        require_other_keys(changed)
        with self._engine.begin() as connection:
            check()
            columns = images.c.image_id, images.c.number
            rows = rows_matching(connection, columns, images.c.image_id, image_ids)
            return change_labels(connection, [row.number for row in rows], changed, self.who)

    def label_images(self, key: str, values: Mapping[str, str]) -> int:
        """Set one label of many images by id and return how many changed; deleted images are skipped."""
        require_other_keys([key])
        with self._engine.begin() as connection:
            return set_one_label(connection, key, values, self.who)

    def merge_labels(self, duplicates: Iterable[DuplicateLabels]) -> tuple[int, list[LabelConflict]]:
        """Give images the labels of duplicates that they lack; return for how many of these, and the conflicts."""
        merged, conflicts = 0, list[LabelConflict]()
        with self._engine.begin() as connection:
            for each in duplicates:
                changed, differing = merge_duplicate(connection, each, self.who)
                merged += changed
                conflicts += differing
        return merged, conflicts

    def add_missing_labels(self, facts: Mapping[str, Mapping[int | None, Mapping[str, str]]]) -> int:
        """Give the images of sources those labels, by source and frame, that they lack; return how many got some."""
        with self._engine.begin() as connection:
            return add_missing_labels(connection, facts, self.who)

    def unplaced_sources(self, sources: Sequence[str]) -> set[str]:
        """Return those of the sources with a DICOM image whose place in its series was never read."""
        with self._engine.connect() as connection:
            return unplaced_sources(connection, sources)

    def unplaced_originals(self) -> dict[str, Path]:
        """Return the stored originals of those DICOM images whose place in their series was never read, by source."""
        with self._engine.connect() as connection:
            paths = {
                source: originals.original_path(self.folder, source)
                for source in unplaced_uploads(connection)
            }
        return {source: path for source, path in paths.items() if path is not None and path.is_file()}

    def relabel(self, source: str, changed: dict[str, str], patient_key: str | None = None) -> bool:
        """Set labels of all images of a source.

        Parameters
        ----------
        source : str
            Source of the images.
        changed : dict
            New values by label key, and the day of a manifest; other labels stay.
        patient_key : str, optional
            New patient key.

        Returns
        -------
        bool
            Whether anything changed.
        """
        changed = {key: value for key, value in changed.items() if key != SLICE_PLACE}
        if STUDY_DAY in changed:
            changed = changed | {STUDY_DAY: str(parse_day(changed[STUDY_DAY]))}
        with self._engine.begin() as connection:
            numbers = connection.scalars(select(images.c.number).where(images.c.source == source)).all()
            reassigned = False
            if patient_key:
                other = (images.c.source == source) & images.c.patient_key.is_distinct_from(patient_key)
                changing = connection.scalars(select(images.c.number).where(other)).all()
                update_images(connection, changing, {"patient_key": patient_key})
                if reassigned := bool(changing):
                    change_labels(connection, changing, {STUDY_DAY: None}, self.who)  # of the patient before
                    ids = ids_of(connection, changing)
                    label_changes.record_change(connection, self.who, "labelled", len(ids), ids)
                    metadata.bump_generation(connection)
            return change_labels(connection, numbers, dict(changed), self.who) or reassigned
