"""The k-NN graph of a collection behind an index: when it is built, and who has it open."""

import logging
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock

from cbir.errors import CollectionDamaged, IndexUnavailable
from cbir.gallery.numbered_graph import NumberedGraph
from cbir.store.base.permissions import folder_mode
from cbir.store.base.profile import Profile
from cbir.store.index.current_index import CurrentIndex, OpenedEdition
from cbir.store.index.editions import FOLDER
from cbir.store.index.neighbour_build import Progress, build_neighbours
from cbir.store.index.neighbour_file import EditionGraph, read_neighbours, write_neighbours
from cbir.store.views.index_feed import IndexFeed, Version
from cbir.system.files import try_lock

OUTGROWN = 0.2  # share of its images that a graph may lack before it is built again

Stamp = tuple[int, int]  # inode and time of a file

log = logging.getLogger(__name__)


class StoredNeighbours:
    """Graph of the neighbours of all images, in a file of each machine; thread-safe.

    It belongs to one edition of the index.

    Parameters
    ----------
    files : Path
        Files folder of the collection.
    kind : str
        Kind of the index.
    profile : Profile
        Profile of the collection.
    feed : IndexFeed
        Of the whole collection.
    current : CurrentIndex
        The index.
    limit : int
        Largest collection whose graph is built without a request by the user; 0: no collection has one.
    """

    def __init__(
        self, files: Path, kind: str, profile: Profile, feed: IndexFeed, current: CurrentIndex, limit: int
    ) -> None:
        self._folder, self._path = files / FOLDER, files / FOLDER / f"{kind}.neighbours"
        self._profile, self._feed, self._current, self._limit = profile, feed, current, limit
        self._lock = Lock()
        self._stamp: Stamp | None = None
        self._opened: EditionGraph | None = None
        # State and file with which nothing is to be done.
        self._settled: tuple[Version, str, Stamp | None] | None = None

    @property
    def useful(self) -> bool:
        """Return whether the settings want a graph."""
        return self._limit > 0

    def of(self, edition: str) -> NumberedGraph | None:
        """Return the graph of an edition; None if it is missing, damaged, or of another one."""
        stored = self._open() if self.useful else None
        return stored.graph if stored and stored.edition == edition else None

    def is_due(self) -> bool:
        """Return whether the graph is to be built: it is missing, or lacks many images.

        One that has erased images is deleted: other machines may have erased them.
        """
        opened = self._current.find() if self.useful else None
        if opened is None or opened.index.position() is None:
            return False
        stored, version = self._open(), self._feed.version()
        if stored is None:
            return True
        settled = version, opened.name, self._stamp
        if self._settled == settled:
            return False
        if stored.generation < self._feed.erased_generation():
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            return True
        if stored.edition != opened.name or self._is_outgrown(stored.graph):
            return True
        self._settled = settled
        return False

    def _is_outgrown(self, graph: NumberedGraph) -> bool:
        last = int(graph.numbers[-1]) if len(graph) else 0
        added = self._feed.count_between(last, self._feed.state().last_number)
        return added > OUTGROWN * len(graph)

    def update(self, progress: Progress | None = None, requested: bool = False) -> bool:
        """Build the graph if that is due, and delete one without a use; False if another process builds it.

        Raises IndexUnavailable if it cannot be written, or if the collection is larger than the limit.

        Parameters
        ----------
        progress : callable, optional
            Called with the number of images whose vectors are read, and of all.
        requested : bool
            Whether the user has requested it, so that there is no limit.
        """
        try:
            if not self.useful or self._current.find() is None:
                self._path.unlink(missing_ok=True)
                return True
            if not self.is_due():
                return True
            if not requested:
                self._require_limit()
            return self._build_alone(progress)
        except OSError as error:
            problem = error.strerror or type(error).__name__
            raise IndexUnavailable(f"the graph {self._path.name} cannot be written: {problem}") from error

    def _require_limit(self) -> None:
        if self._feed.count_between(0, self._feed.state().last_number) > self._limit:
            raise IndexUnavailable(
                f"the collection has more than {self._limit} images (setting graph_limit); "
                "`cbir collection build-index` builds it"
            )

    def _build_alone(self, progress: Progress | None) -> bool:
        self._folder.mkdir(mode=folder_mode(self._folder.parent), exist_ok=True)
        with self._path.with_suffix(".neighbours-lock").open("ab") as file:
            if not try_lock(file.fileno()):
                return False
            if (opened := self._current.find()) and self.is_due():
                self._build(opened, progress)
        return True

    def _build(self, opened: OpenedEdition, progress: Progress | None) -> None:
        started, (generation, _) = time.monotonic(), self._feed.version()
        graph = build_neighbours(self._feed, self._profile, opened.statistics, self._folder, progress)
        write_neighbours(self._path, EditionGraph(opened.name, generation, graph))
        # Who has erased a patient meanwhile, or dropped the index, has deleted the file of before.
        if generation < self._feed.erased_generation() or self._current.find() is None:
            self._path.unlink(missing_ok=True)
            return
        seconds = time.monotonic() - started
        log.info("graph of neighbours of %d images built in %.0f seconds", len(graph), seconds)

    def _open(self) -> EditionGraph | None:
        try:
            status = self._path.stat()
        except OSError:  # missing, or not to be read: searches go on without it
            self._opened = self._stamp = None  # a deleted file keeps its space while it is mapped
            return None
        stamp = status.st_ino, status.st_mtime_ns
        if stamp != self._stamp:
            with self._lock:
                if stamp != self._stamp:
                    self._opened, self._stamp = self._read(), stamp
        return self._opened

    def _read(self) -> EditionGraph | None:
        try:
            return read_neighbours(self._path)
        except CollectionDamaged as error:
            log.warning("%s; it is built again", error)
            return None
