"""Vector index of FAISS in the memory of each process, and in files of the collection's files folder."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from cbir.errors import AccessDenied, CollectionDamaged, IndexUnavailable
from cbir.gallery.vector_blocks import Floats
from cbir.store.index.faiss_file import (
    ChangeFile,
    StoredIndex,
    mapped_vectors,
    overwrite_rows,
    read_index_file,
    write_index_file,
)
from cbir.store.index.faiss_graph import FaissGraph
from cbir.store.index.faiss_lists import PROBES, FaissLists
from cbir.store.index.local_content import LocalContent, LocalKind
from cbir.store.index.port import IndexedImage, IndexPosition, IndexScope, Neighbours, Numbers
from cbir.system.files import private_folder


class ReadWriteLock:
    """Readers wait while a writer waits, so that steady searches cannot keep changes out."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._writers = 0  # that wait or write
        self._writing = False

    @contextmanager
    def read(self) -> Iterator[None]:
        """Hold the lock together with other readers."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writers)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def write(self) -> Iterator[None]:
        """Hold the lock alone."""
        with self._changed:
            self._writers += 1
            self._changed.wait_for(lambda: not self._readers and not self._writing)
            self._writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._writers -= 1
                self._changed.notify_all()


AT_ONCE = 1000  # images added while searches wait

REWRITTEN = 0.02  # size of the changes, in sizes of the file, from which the file is written anew

SMALL = 1 << 20  # bytes of changes that are never too many

HNSW = LocalKind("hnsw", FaissGraph, FaissGraph.read)

log = logging.getLogger(__name__)


def inverted_lists(probes: int = PROBES) -> LocalKind:
    """Return the kind with inverted lists, of which a search reads `probes`."""
    return LocalKind("ivf", partial(FaissLists, probes=probes), partial(FaissLists.read, probes=probes))


class FaissIndex:
    """Graph or inverted lists in memory, read from `<edition>.<kind>` and the changes beside it.

    A first fill is in memory alone until its position is set. One process at a time may change an index; others see
    its changes at their next call. A damaged file counts as none: the position is None. Thread-safe.
    """

    serves_vectors = True

    def __init__(
        self,
        folder: Path,
        edition: str,
        dimensions: int,
        matching: Callable[[IndexScope], Numbers],
        kind: LocalKind = HNSW,
    ) -> None:
        """Open the index, or prepare an empty one.

        Parameters
        ----------
        folder : Path
            Folder of the files; made when something is written.
        edition : str
            Name of the edition.
        dimensions : int
            Length of the vectors.
        matching : callable
            Returns the numbers of the images in a scope, from the collection.
        kind : LocalKind, optional
            What finds the nearest.
        """
        self._folder, self._edition, self._dimensions = folder, edition, dimensions
        self._matching, self._kind = matching, kind
        self._path = folder / f"{edition}.{kind.suffix}"
        self._lock = ReadWriteLock()
        self._stamp: tuple[int, ...] | None = None
        self._position: IndexPosition | None
        self._content: LocalContent
        self._changes: ChangeFile
        self._use(None)
        self._refresh()

    def nearest(self, queries: Floats, k: int, scope: IndexScope) -> list[Neighbours]:
        """Return up to k images of `scope` for each of the `queries` (q, d); all that match where fewer do."""
        numbers = None if scope == IndexScope() else self._matching(scope)
        self._refresh()
        with self._lock.read():
            return self._content.nearest(queries, k, numbers)

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return the numbers that the index has of `numbers`, ascending, and their vectors (n, d)."""
        self._refresh()
        with self._lock.read():
            return self._content.vectors(numbers)

    def put(self, images: Sequence[IndexedImage], vectors: Floats) -> None:
        """Add images with their vectors (n, d), or replace them; those that it has with this vector stay."""
        self._refresh()
        everything = np.array([image.number for image in images], np.int64)
        for start in range(0, len(images), AT_ONCE):
            numbers = everything[start : start + AT_ONCE]
            values = np.ascontiguousarray(vectors[start : start + AT_ONCE], np.float32)
            with self._lock.write(), self._writing():
                new = ~self._content.has(numbers, values)
                if not new.any():
                    continue
                numbers, values = numbers[new], values[new]
                if self._is_stored:
                    self._changes.append_put(numbers, values)
                self._content.put(numbers, values)

    def delete(self, numbers: Numbers) -> None:
        """Delete images; unknown numbers are ignored."""
        self._refresh()
        with self._lock.write(), self._writing():
            present_numbers = self._content.rows.numbers[self._content.rows.rows(numbers)]
            if self._is_stored and len(present_numbers):
                self._changes.append_delete(present_numbers)
            self._delete(present_numbers)

    def position(self) -> IndexPosition | None:
        """Return how far it has followed; None before the first fill has ended."""
        self._refresh()
        return self._position

    def set_position(self, position: IndexPosition) -> None:
        """Store how far it has followed, once everything before is durable.

        Nothing of a deleted image is in the files any more when this returns.
        """
        size = self._path.stat().st_size if self._is_stored else 0
        with self._lock.write(), self._writing():
            self._position = position
            if self._is_stored and self._changes.end <= max(SMALL, REWRITTEN * size):
                self._changes.append_position(position)
                self._overwrite_deleted()
                return
        with self._writing():
            self._save(position)

    def finish(self) -> None:
        """Make inverted lists; a graph grows with each image."""
        self._content.finish()

    def __len__(self) -> int:
        self._refresh()
        return len(self._content)

    def drop(self) -> None:
        """Delete the files, and everything in memory."""
        with self._lock.write():
            self._path.unlink(missing_ok=True)
            self._remove_changes(current_edition=None)
            self._use(None)

    def close(self) -> None:
        """Do nothing: no connection is open."""

    # Files

    def _refresh(self) -> None:
        """Take over what another process has written."""
        if self._stamp == _stamp(self._path) and not self._changes.has_more():
            return
        with self._lock.write():
            stamp = _stamp(self._path)
            if stamp != self._stamp:
                try:
                    self._use(read_index_file(self._path, self._kind))
                except AccessDenied as error:
                    raise IndexUnavailable(str(error)) from error
                except CollectionDamaged as error:
                    log.warning("%s; it is filled again", error)
                    self._use(None)
                self._stamp = stamp
            for change in self._changes.read() if self._is_stored else ():
                if isinstance(change, IndexPosition):
                    self._position = change
                elif isinstance(change, tuple):
                    self._content.put(*change)
                else:
                    self._delete(change)

    def _use(self, stored: StoredIndex | None) -> None:
        """Hold what was read; nothing for None, or for vectors of another length."""
        if stored and stored.content.dimensions != self._dimensions:
            stored = None
        self._is_stored = stored is not None
        self._stamp = None
        self._content = stored.content if stored else self._kind.empty(self._dimensions)
        self._position = stored.position if stored else None
        self._stored_rows = len(stored.content.rows) if stored else 0
        self._deleted_rows = np.empty(0, np.int64)  # whose values the files may still have
        self._deleted = np.empty(0, np.int64)  # their numbers
        self._changes_number = stored.changes if stored else 0
        self._changes = self._change_file(self._changes_number)

    def _delete(self, numbers: Numbers) -> None:
        rows = self._content.delete(numbers)
        if self._is_stored:
            self._deleted_rows = np.union1d(self._deleted_rows, rows)
            self._deleted = np.union1d(self._deleted, numbers)

    def _overwrite_deleted(self) -> None:
        """Overwrite the values of deleted images in the files."""
        if not len(self._deleted):
            return
        rows = self._deleted_rows[self._deleted_rows < self._stored_rows]
        overwrite_rows(self._path, self._stored_rows, rows, self._content.values(rows))
        present = self._content.rows.numbers[self._content.rows.rows(self._deleted)]  # put again since
        self._changes.overwrite(np.setdiff1d(self._deleted, present))
        self._deleted_rows = self._deleted = np.empty(0, np.int64)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise IndexUnavailable(
                f"the index {self._path.name} cannot be written: {error.strerror or type(error).__name__}"
            ) from error

    def _change_file(self, number: int) -> ChangeFile:
        return ChangeFile(self._folder / f"{self._edition}.{number}.changes", self._dimensions)

    def _save(self, position: IndexPosition) -> None:
        """Write the whole file again; searches go on meanwhile."""
        private_folder(self._folder)
        self._content.finish()
        number = self._changes_number + 1
        changes = self._change_file(number)
        changes.remove()
        with self._lock.read():
            rows = len(self._content.rows)
            write_index_file(self._path, StoredIndex(self._content, position, number))
            self._content.use_file(mapped_vectors(self._path, rows, self._dimensions))
            self._changes, self._changes_number = changes, number
            self._stamp, self._is_stored, self._stored_rows = _stamp(self._path), True, rows
            self._deleted_rows = self._deleted = np.empty(0, np.int64)
        self._remove_changes(current_edition=number)

    def _remove_changes(self, current_edition: int | None) -> None:
        for path in self._folder.glob(f"{self._edition}.*.changes"):
            if path.name != f"{self._edition}.{current_edition}.changes":
                path.unlink(missing_ok=True)


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return what changes whenever a file is replaced; None without a file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
