"""Current view of a collection, rebuilt when the collection has changed, and its vectors for queries by text.

A projection is fitted to images alone; texts lie elsewhere in the space, and lose what distinguishes them when they
are projected. So texts are compared with the encoder's raw values, scaled to length 1.
"""

import threading
from pathlib import Path
from threading import Lock

import numpy as np
from sqlalchemy import Connection

from cbir.errors import AccessDenied, CollectionDamaged
from cbir.gallery.code_index import CodeIndex
from cbir.gallery.gallery import Gallery
from cbir.gallery.knn_graph import Neighbourhood
from cbir.gallery.vector_blocks import Floats, VectorBlocks
from cbir.store.base import metadata
from cbir.store.base.damage import REPAIR
from cbir.store.base.normalisation import SHORTEST
from cbir.store.base.profile import Profile, vector_format
from cbir.store.postgresql.postgresql_database import Database, connect_once, is_sqlite
from cbir.store.snapshot import stored_snapshot
from cbir.store.snapshot.snapshot import Snapshot, SnapshotInfo, open_snapshot, read_codes, read_knn
from cbir.store.snapshot.stored_snapshot import (
    has_state,
    read_snapshot_info,
    read_state,
    snapshot_stamp,
    snapshot_statistics,
)
from cbir.store.views.collection_view import View, build_view, vector_pages
from cbir.store.views.snapshot_check import require_sample_agreement
from cbir.system.threads import run_to_end

ATTEMPTS = 3  # to open a snapshot, which a writer may just have replaced


class ViewCache:
    """View of the latest generation with the snapshot that it reads. Thread-safe.

    profile: as of the current view. problem: damage that makes the view incomplete; None if there is none.
    """

    def __init__(self, folder: Path, engine: Database, profile: Profile) -> None:
        self.profile = profile
        self._folder, self._engine = folder, engine
        self._lock = threading.Lock()
        self._view: View | None = None
        self._state = (0, stored_snapshot.NONE)  # generation and state of the view
        self._stamp = 0  # of the snapshot's description, where that is a file
        self._snapshot: tuple[Snapshot, SnapshotInfo] | None = None
        self._neighbourhood: Neighbourhood | None = None  # of the snapshot
        self._codes: CodeIndex | None = None  # of the snapshot
        self._snapshot_problem: str | None = None
        self._neighbours_problem: str | None = None
        self._codes_problem: str | None = None

    @property
    def problem(self) -> str | None:
        return self._snapshot_problem or self._neighbours_problem or self._codes_problem

    def reload_profile(self) -> None:
        """Read the profile again, as `view` does, without vectors."""
        with connect_once(self._engine) as connection:
            self.profile = metadata.read_profile(connection, self._folder)

    def view(self) -> View:
        """Return the view of the latest generation, from memory if nothing has changed."""
        with connect_once(self._engine) as connection:
            state = read_state(connection)
        current = self._view
        if current is not None and self._state == state and self._stamp == self._current_stamp():
            return current
        return run_to_end(self._latest, self._lock)

    def _latest(self) -> View:
        for attempt in range(1, ATTEMPTS + 1):
            with self._engine.connect() as connection:
                state = read_state(connection)
                stamp = self._current_stamp()
                if self._view is not None and self._state == state and self._stamp == stamp:
                    return self._view
                if self._open_snapshot(connection) or attempt == ATTEMPTS:
                    if self._view and not has_state(
                        connection, self._state[1]
                    ):  # an earlier state was restored
                        self._view = None
                    self._view = self._build(connection, state[0])
                    self._state, self._stamp = state, stamp
                    return self._view
        raise AssertionError("the last attempt returns")

    def _current_stamp(self) -> int:
        return 0 if is_sqlite(self._engine) else snapshot_stamp(self._folder)

    def _build(self, connection: Connection, generation: int) -> View:
        self.profile = metadata.read_profile(connection, self._folder)
        return build_view(
            connection,
            self.profile,
            snapshot_statistics(connection, self._folder, self._snapshot and self._snapshot[1]),
            generation,
            self._snapshot,
            self._view,
            self._neighbourhood,
            self._codes,
        )

    def _open_snapshot(self, connection: Connection) -> bool:
        """Open the snapshot that the database names, unless it is open; False if one of its files cannot be read.

        The snapshot may have been replaced meanwhile. Called again for the same one, it does without files beside it.
        """
        info = read_snapshot_info(connection, self._folder)
        self._snapshot_problem = None
        if info is None:
            self._snapshot = self._neighbourhood = self._neighbours_problem = None
            self._codes = self._codes_problem = None
            return not self._current_stamp()  # else it may be newer than what this transaction sees
        if self._snapshot and self._snapshot[1] == info:
            return True
        self._neighbourhood = self._neighbours_problem = None
        self._codes = self._codes_problem = None
        path = self._folder / "snapshots" / info.file
        try:
            statistics = snapshot_statistics(connection, self._folder, info)
        except (CollectionDamaged, AccessDenied) as damage:
            if info.statistics_fingerprint is None:
                raise
            self._snapshot, self._snapshot_problem = None, str(damage)
            return False
        if statistics is None:
            raise CollectionDamaged(
                f"the collection's database does not contain the statistics of its snapshot; {REPAIR}"
            )
        dimensions = statistics.dimensions
        try:
            snapshot = open_snapshot(path, info, dimensions)
        except (CollectionDamaged, AccessDenied) as damage:
            self._snapshot, self._snapshot_problem = None, str(damage)
            return False
        stored_format = vector_format(metadata.read_profile(connection, self._folder))
        require_sample_agreement(connection, snapshot, statistics, stored_format)
        self._snapshot = (snapshot, info)
        try:
            if info.neighbours_checksum:
                neighbours = read_knn(path.with_name(info.neighbours), info.images, dimensions)
                self._neighbourhood = Neighbourhood(neighbours)
        except (CollectionDamaged, AccessDenied) as damage:
            self._neighbours_problem = f"{damage}: re-ranking by neighbours sees the nearest images alone"
        try:
            if info.codes_checksum:
                self._codes = read_codes(path.with_name(info.codes), info.codes_checksum, snapshot)
        except (CollectionDamaged, AccessDenied) as damage:
            self._codes_problem = f"{damage}: searches read all vectors in place of their codes"
        return self._neighbours_problem is None and self._codes_problem is None


def unit_vectors(raw: Floats) -> Floats:
    """Return vectors (n, e) scaled to length 1; one without a direction becomes 0."""
    lengths = np.linalg.norm(raw, axis=-1, keepdims=True)
    return np.asarray(raw / np.maximum(lengths, np.float32(SHORTEST)), np.float32)


class JointVectors:
    """Vectors of length 1 of the images of a view, read with the first query by text. Thread-safe."""

    def __init__(self, engine: Database) -> None:
        self._engine = engine
        self._lock = Lock()
        self._loaded: tuple[Gallery, VectorBlocks] | None = None  # gallery of a view, and its vectors

    def of_view(self, view: View, profile: Profile, values: int) -> VectorBlocks:
        """Return the vectors (n, values) of the rows of a view; a row whose image was deleted has 0.

        Parameters
        ----------
        view : View
            View of the collection.
        profile : Profile
            Its profile.
        values : int
            Number of leading values that the encoder gives.
        """
        loaded = self._loaded
        if loaded and loaded[0] is view.gallery:
            return loaded[1]
        return run_to_end(lambda: self._load(view.gallery, profile, values), self._lock)

    def _load(self, gallery: Gallery, profile: Profile, values: int) -> VectorBlocks:
        if self._loaded and self._loaded[0] is gallery:
            return self._loaded[1]
        ids, blocks = gallery.ids, list[Floats]()
        if self._loaded:
            before, earlier = self._loaded
            if np.array_equal(before.ids, ids[: len(before)]):  # images were added to these
                blocks = list(earlier.blocks)
        start = sum(map(len, blocks))
        added = np.zeros((len(ids) - start, values), np.float32)
        after = int(ids[start - 1]) if start else 0
        with self._engine.connect() as connection:
            for raw, numbers in vector_pages(connection, after, vector_format(profile)):
                in_view = np.isin(numbers, ids)  # others were added since the view was made
                rows = np.searchsorted(ids, numbers[in_view]) - start
                added[rows] = unit_vectors(raw[in_view, :values])
        if len(blocks) > 1:  # two at most: the first, and what was added since
            blocks[1:] = [np.concatenate([*blocks[1:], added])]
        elif len(added) or not blocks:
            blocks.append(added)
        self._loaded = gallery, VectorBlocks(tuple(blocks))
        return self._loaded[1]
