"""A collection: a folder with SQLite for records and vectors, and a snapshot that is derived from it."""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine

from cbir.errors import (
    AccessDenied,
    CollectionBusy,
    CollectionDamaged,
    InvalidInput,
    NotFound,
    raise_when_denied,
)
from cbir.gallery.vector_blocks import Rows, VectorBlocks
from cbir.store.base import metadata
from cbir.store.base.collection_folder import is_read_only, warn_if_open_to_others, writer_lock
from cbir.store.base.damage import keep_history, raise_when_damaged, raise_when_full
from cbir.store.base.normalisation import Statistics
from cbir.store.base.profile import Profile, vector_format
from cbir.store.base.schema import images
from cbir.store.collection_address import is_alias, resolve_alias
from cbir.store.postgresql.postgresql_address import database_address, is_in_postgresql
from cbir.store.postgresql.postgresql_database import (
    PostgresqlDatabase,
    connect_once,
    is_sqlite,
    open_database,
)
from cbir.store.records import add_transaction, image_counts, label_changes
from cbir.store.records.filter_conditions import Condition, DicomScope, PatientScope
from cbir.store.records.patient_key import check_key, find_key_check, note_key, require_key
from cbir.store.records.record_queries import RecordQueries, query_method
from cbir.store.records.record_rows import LabelledImage, numbers_where, read_labelled_images
from cbir.store.records.records import hash_patient
from cbir.store.safety import last_good
from cbir.store.safety.database_files import require_database
from cbir.store.snapshot import stored_snapshot
from cbir.store.snapshot.stored_snapshot import (
    read_snapshot_info,
    snapshot_statistics,
)
from cbir.store.views import snapshot_build
from cbir.store.views.collection_view import View, vectors_of
from cbir.store.views.index_feed import IndexFeed
from cbir.store.views.view_cache import JointVectors, ViewCache
from cbir.store.writing import creation
from cbir.store.writing.creation import collection_exists, create_files
from cbir.store.writing.migration import bring_up_to_date
from cbir.store.writing.writer import Writer


class Collection(RecordQueries):
    """Reading side of a collection: records, and views of the vectors that follow other processes' writes.

    Thread-safe. Writing goes through `Collection.writer`. fallback_for: the damage of the collection that this last
    good copy is open for; None for a collection itself.
    """

    def __init__(self, folder: Path | str) -> None:
        """Open the collection in `folder`, or that an alias names.

        Raises NotFound, CollectionDamaged, AccessDenied if it may not be read, InvalidInput for a wrong alias.
        """
        with raise_when_denied(Path(folder)):
            self.folder = resolve_alias(Path(folder))
            self._require_database(folder)
        self._engine = open_database(self.folder)
        try:
            with raise_when_damaged(self.folder), raise_when_full(self.folder):
                if isinstance(self._engine, PostgresqlDatabase):
                    creation.open_schema(self._engine, self.folder)
                else:
                    bring_up_to_date(self.folder, self._engine)
                profile = self._read(metadata.read_profile, self.folder)
        except BaseException:
            self._engine.dispose()
            raise
        if self.folder.name != last_good.NAME:  # which lies inside the collection
            warn_if_open_to_others(self.folder)
        self._views = ViewCache(self.folder, self._engine, profile)
        self._joint = JointVectors(self._engine)
        self.fallback_for: str | None = None
        self._key_check: str | None = None  # stored hash of the key, once it has been read
        self._has_history = False  # whether sums of the history are kept, once that has been looked at

    def _require_database(self, name: Path | str) -> None:
        """Raise NotFound or CollectionDamaged if there is no database; `name` is what the user calls the folder."""
        if not is_in_postgresql(self.folder):
            require_database(self.folder, name)
        elif not self.exists(self.folder):
            address = repr(database_address(self.folder))
            raise NotFound(
                f"there is no collection in {address}; `cbir index SOURCE --collection {address}` creates one"
            )
        else:
            creation.require_tables(self.folder)

    @staticmethod
    def exists(folder: Path | str) -> bool:
        """Return whether `folder` holds a collection, also one that lost its database; an alias exists.

        An interrupted creation does not count.
        """
        path = Path(folder)
        if is_alias(path):
            return path.is_file()
        if is_in_postgresql(path):
            return creation.schema_holds_collection(path)
        return collection_exists(path)

    @classmethod
    def create(cls, folder: Path | str, profile: Profile, secret: bytes | None = None) -> "Collection":
        """Create an empty collection with this `profile`; raises InvalidInput if `folder` holds one already.

        `secret`: key that patients' identifiers are hashed with, if it is to be that of another collection.
        """
        if is_alias(Path(folder)):
            raise InvalidInput(
                f"there is no alias {folder}; create the collection in a folder, then the alias"
            )
        if is_in_postgresql(Path(folder)):
            creation.create_collection(Path(folder), profile, secret)
        else:
            create_files(Path(folder), profile, secret)
        return cls(folder)

    @contextmanager
    def writer(self, who: str = "command line") -> Iterator[Writer]:
        """Lock the collection for writing, for one process at a time.

        `who` is the name in the history. Raises CollectionBusy if another process writes, CollectionDamaged for the
        last good copy of a damaged collection and for a wrong `patient.key`, InvalidInput for a read-only folder, and
        StorageFull if the disk is full.
        """
        if self.fallback_for:
            raise CollectionDamaged(self.fallback_for)
        if self.is_local and is_read_only(self.folder):
            raise InvalidInput(f"{self.folder} is read-only, so the collection can only be searched")
        # In PostgreSQL, transactions wait for each other; what writes files takes the lock.
        lock = writer_lock(self.folder) if self.is_local else nullcontext()
        with raise_when_full(self.folder), lock:
            if is_sqlite(self._engine):
                note_key(self._engine, self.folder)
                last_good.finish_replacement(self.folder)
                self._keep_history()
            else:
                _ = self.secret
            yield Writer(self.folder, self._engine, who)

    def trust_key(self) -> None:
        """Take the present `patient.key` for that of a collection without a hash of it; raises CollectionDamaged."""
        with writer_lock(self.folder), raise_when_damaged(self.folder):
            if is_sqlite(self._engine):
                note_key(self._engine, self.folder, trust=True)

    def _keep_history(self) -> None:
        """Keep the sums of the history in a collection of an earlier version too."""
        if isinstance(self._engine, Engine) and not self._has_history:
            with self._engine.begin() as connection:
                keep_history(connection)
            self._has_history = True

    @contextmanager
    def only_writer(self) -> Iterator[Writer]:
        """Keep other writers out until the end, also where they take turns; raises as `writer` does."""
        database = self.postgresql()
        with database.alone() if database else nullcontext(), self.writer() as writer:
            yield writer

    def close(self) -> None:
        """Close the database's connections."""
        self._engine.dispose()

    def close_when_unused(self) -> None:
        """Close them once nothing refers to this object any more: others may still be reading."""
        weakref.finalize(self, self._engine.dispose).atexit = False

    def __enter__(self) -> "Collection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The collection as a whole

    @property
    def profile(self) -> Profile:
        """Profile as of the last call of `view`, or of opening."""
        return self._views.profile

    @property
    def is_local(self) -> bool:
        """True if the collection is in SQLite, in its folder; else it is in PostgreSQL."""
        return is_sqlite(self._engine)

    def reload_profile(self) -> None:
        """Read the profile again, which another process may have set; `view` does so too, with all vectors."""
        self._views.reload_profile()

    @property
    def secret(self) -> bytes:
        """Key that patients' identifiers are hashed with; raises CollectionDamaged if it is another one."""
        if self._key_check is None:
            stored = self._read(find_key_check, self.folder)
            self._key_check = stored or self._read(require_key, self.folder)  # old collections have none
        return check_key(self.folder, self._key_check)

    def key_problem(self) -> str | None:
        """Return what is wrong with `patient.key`, without which nothing can be written; None if it is right."""
        try:
            _ = self.secret
        except (CollectionDamaged, AccessDenied) as problem:
            return str(problem)
        return None

    def patient_key_of(self, patient: str) -> str | None:
        """Return the key of a patient that is named by identifier, or by the key of an image; None for no patient."""
        numbers = self._read(numbers_where, images.c.patient_key == patient)
        return patient if len(numbers) else hash_patient(self.secret, patient)

    @property
    def snapshot_problem(self) -> str | None:
        """Damage that makes the current view incomplete; None if there is none."""
        return self.fallback_for or self._views.problem

    def generation(self) -> int:
        """Return the number of transactions that have changed the collection."""
        with connect_once(self._engine) as connection:
            return int(metadata.required_value(connection, "generation"))

    statistics = query_method(metadata.read_statistics)

    def normalisation(self) -> Statistics:
        """Return the statistics that normalise vectors of searches; reads no vectors once they are fitted."""
        with self._engine.connect() as connection:
            info = read_snapshot_info(connection, self.folder)
            fitted = snapshot_statistics(connection, self.folder, info)
        return fitted or self.view().statistics

    statistics_fingerprint = query_method(stored_snapshot.statistics_fingerprint)
    is_left_to_index = query_method(snapshot_build.has_no_snapshot)

    def snapshot_is_due(self) -> bool:
        """Return whether `build_due_snapshot` is to be called: see `snapshot_build.snapshot_is_due`."""
        return snapshot_build.snapshot_is_due(self.folder, self._engine)

    def build_due_snapshot(self) -> bool:
        """Write a snapshot for this machine if one is due; return whether it was written.

        Does nothing while another process writes one. Raises StorageFull, CollectionDamaged.
        """
        try:
            with raise_when_full(self.folder), writer_lock(self.folder):
                if not self.snapshot_is_due():
                    return False
                snapshot_build.rebuild_snapshot(self.folder, self._engine)
                return True
        except CollectionBusy:
            return False

    def info(self) -> dict[str, Any]:
        """Return the summary that `cbir collection info` prints."""
        return self._read(image_counts.collection_info, self.folder, self.profile)

    counts = query_method(image_counts.count_images)
    history = query_method(label_changes.read_changes)
    additions = query_method(label_changes.read_additions)
    find_reply = query_method(add_transaction.find_reply)

    def auto_choice(self) -> str | None:
        """Return the serialised choice of the re-ranker that `auto` stands for; None if none can be read."""
        try:
            return self._read(metadata.find_value, metadata.AUTO)
        except CollectionDamaged:  # as `view` does: searches need no choice
            return None

    graded_labels = query_method(metadata.graded_labels)
    grade_model = query_method(metadata.read_grade_model)

    # Views and rows

    def view(self) -> View:
        """Return the current state, from memory if nothing has changed since the last call."""
        return self._views.view()

    def select_rows(self, view: View, where: Sequence[Condition] = ()) -> Rows | None:
        """Return the rows of a view to search, for which all conditions hold; None for all of them."""
        return view.select(self.matching_rows(view, where), np.empty(0, np.int64))

    def matching_rows(self, view: View, where: Sequence[Condition]) -> Rows | None:
        """Return the rows of a view of this collection for which all conditions hold; None without conditions."""
        if not where:
            return None
        return view.filtered.rows(tuple(where), lambda: view.rows_of(self.matching_numbers(where)))

    def excluded_rows(self, view: View, outside: DicomScope | None, exclude_patient_key: str | None) -> Rows:
        """Return the rows of a view to leave out of a search.

        Parameters
        ----------
        view : View
            View of this collection.
        outside : DicomScope or None
            Study, series or instance to leave out; images that are no DICOM instance are left out too.
        exclude_patient_key : str or None
            Key of a patient whose images are left out.
        """
        excluded = [np.empty(0, np.int64)]
        with connect_once(self._engine) as connection:
            if exclude_patient_key:
                excluded.append(numbers_where(connection, images.c.patient_key == exclude_patient_key))
            if outside:
                excluded.append(numbers_where(connection, outside.excludes()))
        return view.rows_of(np.concatenate(excluded))

    def patient_rows(self, view: View, patient: PatientScope) -> Rows:
        """Return the rows of a view that show a patient."""
        return view.rows_of(self._read(numbers_where, patient.contains()))

    def patient_numbers(self, patient: PatientScope, where: Sequence[Condition] = ()) -> NDArray[np.int64]:
        """Return the numbers of the images that show a patient and for which all conditions hold, ascending."""
        return self._read(numbers_where, patient.contains(), *(condition.matches() for condition in where))

    def index_feed(self) -> IndexFeed:
        """Return what reads the changes that a vector index follows."""
        return IndexFeed(self.folder, self._engine)

    def postgresql(self) -> PostgresqlDatabase | None:
        """Return the database if it is PostgreSQL, for tables of search indexes beside those of the collection."""
        return self._engine if isinstance(self._engine, PostgresqlDatabase) else None

    def joint_vectors(self, view: View, values: int) -> VectorBlocks:
        """Return the raw values of an encoder, the first `values` of the rows of a view, scaled to length 1."""
        return self._joint.of_view(view, self.profile, values)

    def vector(self, image_id: str) -> NDArray[np.float32]:
        """Return the raw vector (d,) float32 of one image; raises NotFound, CollectionDamaged."""
        return np.array(vector_format(self.profile).decode([self.stored_vector(image_id)])[0])

    def raw_vectors(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the raw vectors (n, d) of the images with these `numbers` (n,)."""
        with self._engine.connect() as connection:
            return vectors_of(connection, numbers, vector_format(self.profile))

    def labelled_vectors(
        self, key: str, where: Sequence[Condition] = ()
    ) -> tuple[list[LabelledImage], NDArray[np.float32]]:
        """Return the images with a value of the label `key` for which `where` holds, and their raw vectors (n, d)."""
        with self._engine.connect() as connection:
            labelled = read_labelled_images(connection, key, where)
            numbers = np.array([image.number for image in labelled], np.int64)
            return labelled, vectors_of(connection, numbers, vector_format(self.profile))
