"""The k-NN graph of a collection behind an index: its file, when it is built, and who has it open.

It is derived like the index, from the vectors in the database; its file is mapped and read in part.
"""

import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.errors import AccessDenied, CollectionDamaged, IndexUnavailable, access_denied
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import build_graph
from cbir.gallery.numbered_graph import NumberedGraph, number_graph
from cbir.gallery.vector_blocks import Floats, Space, fit_space, plain_space
from cbir.store.base.collection_folder import file_mode, folder_mode
from cbir.store.base.normalisation import Statistics, part_bounds
from cbir.store.base.profile import Profile
from cbir.store.index.current_index import CurrentIndex, OpenedEdition
from cbir.store.index.editions import FOLDER
from cbir.store.index.port import Numbers
from cbir.store.views.index_feed import IndexFeed, Version
from cbir.system.files import atomic_binary, try_lock
from cbir.system.ownership import make_folder, open_or_create
from cbir.system.threads import checkpoint

FORMAT = 1

HEADER = 4096  # bytes

DIGEST = 16  # bytes of the digest at the end

READ = 1 << 20  # bytes read at a time

Array = NDArray[Any]


class EditionGraph(NamedTuple):
    """Content of the file. edition: of the index. generation: of the collection, before its vectors were read."""

    edition: str
    generation: int
    graph: NumberedGraph


def write_neighbours(path: Path, stored: EditionGraph) -> None:
    """Write the graph of an edition atomically, and durably; the folder must exist."""
    graph = stored.graph
    header = {
        "format": FORMAT,
        "edition": stored.edition,
        "generation": stored.generation,
        "images": len(graph),
        "edges": len(graph.ends),
        "dimensions": len(graph.space.centre),
        "whitened": graph.space.projection is not None,
        "least": graph.least,
    }
    digest = hashlib.blake2b(digest_size=DIGEST)
    with atomic_binary(path, permissions=file_mode(path.parent)) as file:
        for part in (json.dumps(header).encode().ljust(HEADER), *_bytes(graph)):
            digest.update(part)
            file.write(part)
        file.write(digest.digest())


def read_neighbours(path: Path) -> EditionGraph | None:
    """Map a file that `write_neighbours` wrote; None if there is none.

    Raises CollectionDamaged if the file cannot be read, or has changed since it was written.
    """
    try:
        with path.open("rb") as file:
            _require_digest(file, path)
            file.seek(0)
            header = json.loads(file.read(HEADER))
            if header["format"] != FORMAT:
                raise CollectionDamaged(f"the graph {path.name} was written by another version of cbir")
            mapped = np.memmap(file, np.uint8, "r")
        return EditionGraph(header["edition"], header["generation"], _mapped_graph(mapped, header))
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise access_denied(error, path) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CollectionDamaged(f"the graph {path.name} cannot be read") from error


def _bytes(graph: NumberedGraph) -> Iterator[bytes]:
    """Yield the arrays as they are in the file: those of 8 bytes a value first, so that all are aligned."""
    projection = graph.space.projection
    arrays: list[tuple[Array, str]] = [
        (graph.numbers, "<i8"),
        (graph.starts, "<i8"),
        (graph.space.centre, "<f4"),
    ]
    arrays += [] if projection is None else [(projection, "<f4")]
    arrays += [(values, "<f4") for values in (graph.scale, graph.reach, graph.degrees, graph.weights)]
    for array, kind in (*arrays, (graph.ends, "<i4")):
        yield np.ascontiguousarray(array, kind).tobytes()


def _mapped_graph(mapped: Array, header: dict[str, Any]) -> NumberedGraph:
    images, edges, dimensions = header["images"], header["edges"], header["dimensions"]
    position = HEADER

    def take(count: int, kind: str) -> Array:
        nonlocal position
        start, position = position, position + count * np.dtype(kind).itemsize
        return mapped[start:position].view(kind).view(np.ndarray)

    numbers, starts, centre = take(images, "<i8"), take(images + 1, "<i8"), take(dimensions, "<f4")
    projection = take(dimensions**2, "<f4").reshape(dimensions, dimensions) if header["whitened"] else None
    scale, reach, degrees = (take(images, "<f4") for _ in range(3))
    weights, ends = take(edges, "<f4"), take(edges, "<i4")
    space = Space(np.array(centre), None if projection is None else np.array(projection))
    return NumberedGraph(numbers, starts, ends, weights, scale, reach, degrees, header["least"], space)


def _require_digest(file: BinaryIO, path: Path) -> None:
    digest, left = hashlib.blake2b(digest_size=DIGEST), os.fstat(file.fileno()).st_size - DIGEST
    while left > 0 and (block := file.read(min(READ, left))):
        digest.update(block)
        left -= len(block)
    if file.read() != digest.digest():
        raise CollectionDamaged(f"the graph {path.name} has changed since it was written")


Progress = Callable[[int, int], None]  # images read, and in all


def build_neighbours(
    feed: IndexFeed, profile: Profile, statistics: Statistics, folder: Path, progress: Progress | None = None
) -> NumberedGraph:
    """Build the graph of all images in the space of an index.

    Parameters
    ----------
    feed : IndexFeed
        Of the whole collection.
    profile : Profile
        Profile of the collection.
    statistics : Statistics
        Of the vectors in the index.
    folder : Path
        Folder for a temporary file of all vectors, which need not fit into memory.
    progress : callable, optional
        Called with the number of images whose vectors are read, and of all.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        numbers = _write_vectors(feed, statistics, file, progress)
        matrix = _mapped(file, len(numbers), statistics.dimensions)
        plain = profile.is_projected  # learned directions need no more whitening
        space = plain_space(matrix.shape[1]) if plain else fit_space(matrix, part_bounds(profile, statistics))
        graph = build_graph(find_neighbours(matrix, space, settings.load().device))
        del matrix
    return number_graph(numbers, graph, space)


def _write_vectors(
    feed: IndexFeed, statistics: Statistics, file: IO[bytes], progress: Progress | None
) -> Numbers:
    """Write the normalised vectors of all images to a file, and return their numbers, ascending."""
    last = feed.state().last_number
    total = feed.count_between(0, last)
    pages, done, after = [np.empty(0, np.int64)], 0, 0
    while True:
        checkpoint()
        numbers, raw = feed.vectors_after(after, last)
        if not len(numbers):
            file.flush()
            return np.concatenate(pages)
        file.write(statistics.normalise(raw).astype(np.float32, copy=False).tobytes())
        pages.append(numbers)
        done, after = done + len(numbers), int(numbers[-1])
        if progress:
            progress(done, max(total, done))


def _mapped(file: IO[bytes], count: int, dimensions: int) -> Floats:
    """Return the vectors (count, dimensions) that a file has."""
    if not count:
        return np.empty((0, dimensions), np.float32)
    return np.memmap(file, np.float32, "r", shape=(count, dimensions)).view(np.ndarray)


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
        make_folder(self._folder, folder_mode(self._folder.parent), exist_ok=True)
        lock = self._path.with_suffix(".neighbours-lock")
        with open(open_or_create(lock, os.O_WRONLY, file_mode(self._folder)), "wb") as file:
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
        except (CollectionDamaged, AccessDenied) as error:
            log.warning("%s; it is built again", error)
            return None
