"""The k-NN graph of a collection behind an index: when it is built, from which vectors, and who has it open."""

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import IO

import numpy as np

from cbir.cancellation import checkpoint
from cbir.errors import CollectionDamaged, IndexUnavailable
from cbir.file_lock import try_lock
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import build_graph
from cbir.gallery.numbered_graph import NumberedGraph, number_graph
from cbir.gallery.vector_blocks import Floats
from cbir.gallery.whitening import fit_space
from cbir.store.index_feed import IndexFeed, Version
from cbir.store.normalisation import part_bounds
from cbir.store.permissions import folder_mode
from cbir.store.profile import Profile
from cbir.vector_index.current_index import CurrentIndex, OpenedEdition
from cbir.vector_index.editions import FOLDER
from cbir.vector_index.neighbour_file import read_neighbours, write_neighbours
from cbir.vector_index.port import Numbers

OUTGROWN = 0.2  # share of its images that a graph may lack before it is built again

Progress = Callable[[int, int], None]  # images read, and in all

log = logging.getLogger(__name__)


class StoredNeighbours:
    """Graph of the neighbours of all images, in a file of each machine; thread-safe.

    It belongs to one edition of the index. Profiles of networks have none: among their candidates relevance finds the
    same images.

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
    """

    def __init__(
        self, files: Path, kind: str, profile: Profile, feed: IndexFeed, current: CurrentIndex
    ) -> None:
        self._folder, self._path = files / FOLDER, files / FOLDER / f"{kind}.neighbours"
        self._profile, self._feed, self._current = profile, feed, current
        self._lock = Lock()
        self._stamp: tuple[int, int] | None = None
        self._opened: tuple[str, NumberedGraph] | None = None
        self._settled: tuple[Version, NumberedGraph] | None = None  # known to be large enough

    @property
    def useful(self) -> bool:
        """Return whether the profile is one whose searches a graph improves."""
        return not self._profile.is_projected

    def of(self, edition: str) -> NumberedGraph | None:
        """Return the graph of an edition; None if it is missing, damaged, or of another one."""
        opened = self._open() if self.useful else None
        return opened[1] if opened and opened[0] == edition else None

    def is_due(self) -> bool:
        """Return whether the graph is to be built: it is missing, or lacks many images."""
        opened = self._current.find() if self.useful else None
        if opened is None or opened.index.position() is None:
            return False
        graph, version = self.of(opened.name), self._feed.version()
        if graph is None:
            return True
        if self._settled == (version, graph):
            return False
        last = int(graph.numbers.max(initial=0))
        added = self._feed.count_between(last, self._feed.state().last_number)
        if added > OUTGROWN * len(graph):
            return True
        self._settled = version, graph
        return False

    def update(self, progress: Progress | None = None) -> bool:
        """Build the graph if that is due, and delete that of a dropped index; False if another process builds it.

        Raises IndexUnavailable if it cannot be written.

        progress: called with the number of images whose vectors are read, and of all.
        """
        if not self.useful:
            return True
        if self._current.find() is None:
            self._path.unlink(missing_ok=True)
            return True
        if not self.is_due():
            return True
        self._folder.mkdir(mode=folder_mode(self._folder.parent), exist_ok=True)
        with self._path.with_suffix(".neighbours-lock").open("ab") as file:
            if not try_lock(file.fileno()):
                return False
            opened = self._current.find()
            if opened and self.is_due():
                try:
                    write_neighbours(self._path, opened.name, self._build(opened, progress))
                except OSError as error:
                    problem = error.strerror or type(error).__name__
                    raise IndexUnavailable(
                        f"the graph {self._path.name} cannot be written: {problem}"
                    ) from error
        return True

    def _open(self) -> tuple[str, NumberedGraph] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        stamp = status.st_ino, status.st_mtime_ns
        if stamp != self._stamp:
            with self._lock:
                if stamp != self._stamp:
                    self._opened, self._stamp = self._read(), stamp
        return self._opened

    def _read(self) -> tuple[str, NumberedGraph] | None:
        try:
            return read_neighbours(self._path)
        except CollectionDamaged as error:
            log.warning("%s; it is built again", error)
            return None

    def _build(self, opened: OpenedEdition, progress: Progress | None) -> NumberedGraph:
        """Build the graph of all images in the space of the vectors that an edition has."""
        with tempfile.TemporaryFile(dir=self._folder) as file:  # all vectors need not fit into memory
            numbers = self._write_vectors(opened, file, progress)
            matrix = _mapped(file, len(numbers), opened.statistics.dimensions)
            space = fit_space(matrix, part_bounds(self._profile, opened.statistics))
            graph = build_graph(find_neighbours(matrix, space))
            del matrix
        return number_graph(numbers, graph, space)

    def _write_vectors(self, opened: OpenedEdition, file: IO[bytes], progress: Progress | None) -> Numbers:
        """Write the normalised vectors of all images to a file, and return their numbers, ascending."""
        last = self._feed.state().last_number
        total = self._feed.count_between(0, last)
        pages, done, after = [np.empty(0, np.int64)], 0, 0
        while True:
            checkpoint()
            numbers, raw = self._feed.vectors_after(after, last)
            if not len(numbers):
                file.flush()
                return np.concatenate(pages)
            file.write(opened.statistics.normalise(raw).astype(np.float32, copy=False).tobytes())
            pages.append(numbers)
            done, after = done + len(numbers), int(numbers[-1])
            if progress:
                progress(done, max(total, done))


def _mapped(file: IO[bytes], count: int, dimensions: int) -> Floats:
    """Return the vectors (count, dimensions) that a file has."""
    if not count:
        return np.empty((0, dimensions), np.float32)
    return np.memmap(file, np.float32, "r", shape=(count, dimensions)).view(np.ndarray)
