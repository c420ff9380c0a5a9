"""Vector index of FAISS in the memory of each process, and in a file of the collection's files folder."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.errors import CollectionDamaged
from cbir.gallery.vector_blocks import Floats, Rows
from cbir.vector_index import faiss_graph
from cbir.vector_index.faiss_file import StoredIndex, read_index_file, write_index_file
from cbir.vector_index.numbered_rows import NumberedRows
from cbir.vector_index.port import IndexedImage, IndexPosition, IndexScope, Neighbours, Numbers
from cbir.vector_index.read_write_lock import ReadWriteLock

AT_ONCE = 1000  # images added while searches wait
COMPARED = 32  # images that are compared in the time in which a search of the graph passes one
UNSAVED = 0.01  # share of images whose changes are not in the file

log = logging.getLogger(__name__)


class FaissIndex:
    """A graph in memory; `matching` returns the numbers of the images in a scope, from the collection.

    The file is written when a first fill ends and after enough changes, so its position may be older than this
    process's: whoever opens it next repeats those changes. A damaged file counts as none. Thread-safe.
    """

    def __init__(self, path: Path, dimensions: int, matching: Callable[[IndexScope], Numbers]) -> None:
        self._path, self._dimensions, self._matching = path, dimensions, matching
        self._lock = ReadWriteLock()
        stored = self._read()
        self._index: Any = stored.index if stored else faiss_graph.new_graph(dimensions)
        self._rows = NumberedRows(stored.numbers if stored else None)
        self._position = stored.position if stored else None
        self._unsaved = 0
        self._mask: NDArray[np.uint8] | None = None

    def nearest(self, queries: Floats, k: int, scope: IndexScope) -> list[Neighbours]:
        """Return up to k images of `scope` for each query (q, d); all that match where fewer do."""
        numbers = None if scope == IndexScope() else self._matching(scope)
        with self._lock.read():
            rows = None if numbers is None else np.unique(self._rows.rows(numbers))
            count = self._rows.images if rows is None else len(rows)
            k = min(k, count)
            if not k:
                return [Neighbours(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
            if count * count > COMPARED * k * len(self._rows):
                selected = self._selector(rows)
                share = count / len(self._rows)
                squared, found = faiss_graph.search_graph(self._index, queries, k, selected, share)
                if (found >= 0).all():
                    return self._neighbours(squared, found)
            return self._neighbours(*self._compare(queries, k, rows))

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return the numbers that the index has of `numbers`, ascending, and their vectors (n, d)."""
        with self._lock.read():
            rows = self._rows.rows(np.unique(numbers))
            return self._rows.numbers[rows].copy(), self._index.reconstruct_batch(rows)

    def put(self, images: Sequence[IndexedImage], vectors: Floats) -> None:
        """Add images with their vectors (n, d), or replace them."""
        for start in range(0, len(images), AT_ONCE):
            numbers = np.array([image.number for image in images[start : start + AT_ONCE]], np.int64)
            with self._lock.write():
                self._drop(numbers)
                self._rows.add(numbers)
                self._index.add(np.ascontiguousarray(vectors[start : start + AT_ONCE], np.float32))
                self._unsaved += len(numbers)
                self._mask = None

    def delete(self, numbers: Numbers) -> None:
        """Delete images; unknown numbers are ignored."""
        with self._lock.write():
            self._drop(numbers)

    def position(self) -> IndexPosition | None:
        """Return how far this process's copy has followed; None before the first fill has ended."""
        return self._position

    def set_position(self, position: IndexPosition) -> None:
        """Store how far it has followed, with all changes before if they are enough to write the file."""
        first, self._position = self._position is None, position
        if first or self._unsaved > UNSAVED * len(self):
            self._save()

    def finish(self) -> None:
        """Do nothing: the graph grows with each image."""

    def __len__(self) -> int:
        return self._rows.images

    def drop(self) -> None:
        """Delete the file, and everything in memory."""
        with self._lock.write():
            self._path.unlink(missing_ok=True)
            self._index, self._rows = faiss_graph.new_graph(self._dimensions), NumberedRows()
            self._position, self._unsaved, self._mask = None, 0, None

    def close(self) -> None:
        """Do nothing: no connection is open."""

    def _read(self) -> StoredIndex | None:
        try:
            stored = read_index_file(self._path)
        except CollectionDamaged as error:
            log.warning("%s; it is filled again", error)
            return None
        return stored if stored and stored.index.d == self._dimensions else None

    def _save(self) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        with self._lock.read():
            stored = StoredIndex("hnsw", self._index, self._rows.numbers, self._position)
            write_index_file(self._path, stored)
            self._unsaved = 0

    def _drop(self, numbers: Numbers) -> None:
        rows = self._rows.drop(numbers)
        faiss_graph.empty_rows(self._index, rows)
        self._unsaved += len(rows)
        self._mask = None

    def _selector(self, rows: Rows | None) -> Any:
        """Return what selects the rows in a search; without `rows` those that have an image, None for all rows."""
        if rows is None:
            if self._rows.images == len(self._rows):
                return None
            if self._mask is None:
                self._mask = np.packbits(self._rows.used(), bitorder="little")
            return faiss.IDSelectorBitmap(self._mask)
        chosen = np.zeros(len(self._rows), bool)
        chosen[rows] = True
        return faiss.IDSelectorBitmap(np.packbits(chosen, bitorder="little"))

    def _compare(self, queries: Floats, k: int, rows: Rows | None) -> tuple[Floats, Rows]:
        """Compare the queries with all of the rows."""
        rows = np.flatnonzero(self._rows.used()) if rows is None else rows
        squared, places = faiss.knn(queries, self._index.reconstruct_batch(rows), k)
        return squared, rows[places]

    def _neighbours(self, squared: Floats, rows: Rows) -> list[Neighbours]:
        distances = np.sqrt(np.maximum(squared, 0))
        return [Neighbours(*pair) for pair in zip(self._rows.numbers[rows], distances, strict=True)]
