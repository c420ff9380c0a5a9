"""HNSW graph (Malkov and Yashunin 2020) of FAISS by image number, with filters, replacements and deletions.

HNSW descends greedily from one row. Where vectors form many groups, it often ends in a wrong one, and no width of
the search leads out of it. A search that begins at several near rows of a sample does not depend on that descent.
"""

from typing import Any, BinaryIO

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats, Rows
from cbir.store.index.faiss_file import WRITTEN, stored_vectors
from cbir.store.index.local_content import DigestWriter, FileRows, NumberedRows
from cbir.store.index.port import Neighbours, Numbers

SAMPLE = 64  # sampled rows for each square root of all

NEAREST = 64  # sampled rows where a search begins

PROBES = 8  # inverted lists of the sample that are read

TRAINED = 64  # sampled rows for each list, of which the lists are made


class GraphEntries:
    """A random sample of the rows of a graph, in inverted lists.

    Parameters
    ----------
    vectors : (n, d) float32
        Vectors of all rows of the graph, at least one.
    """

    def __init__(self, vectors: Floats) -> None:
        self.drawn_from, dimensions = vectors.shape
        count = min(len(vectors), max(NEAREST, int(SAMPLE * len(vectors) ** 0.5)))
        rows = np.sort(np.random.default_rng(0).choice(len(vectors), count, replace=False))
        lists = int(count**0.5)
        self._lists = faiss.IndexIVFFlat(faiss.IndexFlatL2(dimensions), dimensions, lists)
        self._lists.cp.min_points_per_centroid, self._lists.cp.max_points_per_centroid = 1, TRAINED
        self._lists.nprobe = min(PROBES, lists)
        sample = vectors[rows]
        self._lists.train(sample)
        self._lists.add_with_ids(sample, rows)

    def __len__(self) -> int:
        return int(self._lists.ntotal)

    def remove(self, rows: Rows) -> None:
        """Remove those of the rows that are in the sample."""
        self._lists.remove_ids(rows)

    def nearest(self, queries: Floats) -> tuple[Floats, Rows]:
        """Return squared distances and rows (q, NEAREST) of the sample, nearest first; -1 where it finds no more."""
        squared, nearest_rows = self._lists.search(queries, NEAREST)
        return squared, nearest_rows


LINKS = 16  # of a row, and twice as many on the lowest level (M of the paper)

BUILD_WIDTH = 100  # rows that building compares at a time (efConstruction)

SEARCH_WIDTH = 400  # the same of a search without a filter (ef), at least

COMPARED = 32  # images that are compared in the time in which a search of the graph passes one

GROWTH = 1.1  # of the rows, after which entries are drawn again

TOGETHER = 2  # search_type of FAISS: one search from all entries

MEAN_OF = 4  # rows whose mean shows none of them


class FaissGraph:
    """Vectors (d,) by image number. Not thread-safe while it changes.

    index: faiss.IndexHNSWFlat. FAISS removes no row of a graph: those of deleted images are emptied and never found.
    """

    def __init__(self, dimensions: int, index: Any = None, numbers: Numbers | None = None) -> None:
        if index is None:
            index = faiss.IndexHNSWFlat(dimensions, LINKS)
            index.hnsw.efConstruction = BUILD_WIDTH
        self.index, self.rows = index, NumberedRows(numbers)
        self._mask: NDArray[np.uint8] | None = None
        self._entries: GraphEntries | None = None

    def __len__(self) -> int:
        return self.rows.images

    def nearest(self, queries: Floats, k: int, numbers: Numbers | None) -> list[Neighbours]:
        """Return the k nearest images of each query, all of them where there are fewer.

        Parameters
        ----------
        queries : (q, d) float32
        k : int
        numbers : (m,) int64 or None
            Images to search, known or not; None for all.
        """
        rows = None if numbers is None else np.unique(self.rows.rows(numbers))
        count = len(self) if rows is None else len(rows)
        k = min(k, count)
        if not k or not len(queries):
            return [Neighbours(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        # A search passes by the images outside of the filter too, so it is wider by as much.
        width = int(max(SEARCH_WIDTH, k) * len(self.rows) / count)
        if count > COMPARED * width:
            squared, graph_rows = self._search(queries, k, width, rows)
            if (graph_rows >= 0).all():
                return self._neighbours(squared, graph_rows)
        rows = np.flatnonzero(self.rows.used()) if rows is None else rows
        squared, neighbour_rows = faiss.knn(queries, self.index.reconstruct_batch(rows), k)
        return self._neighbours(squared, rows[neighbour_rows])

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return those of the numbers that are known, ascending, and their vectors (n, d)."""
        rows = self.rows.rows(np.unique(numbers))
        return self.rows.numbers[rows].copy(), self.index.reconstruct_batch(rows)

    def has(self, numbers: Numbers, vectors: Floats) -> NDArray[np.bool_]:
        """Return whether each number is known with exactly this vector."""
        present = np.isin(numbers, self.rows.numbers[self.rows.rows(numbers)])
        rows = self.rows.rows(numbers[present])
        present[present] = (
            (stored_vectors(self.index)[rows] == vectors[present]).all(axis=1) if len(rows) else False
        )
        return present

    def put(self, numbers: Numbers, vectors: Floats) -> None:
        """Add images with their vectors (n, d), or replace them."""
        self.delete(numbers)
        self.rows.add(numbers)
        self.index.add(vectors)
        self._mask = None

    def delete(self, numbers: Numbers) -> Rows:
        """Delete images, and return their rows, which are emptied; unknown numbers are ignored."""
        rows = self.rows.drop(numbers)
        if len(rows):
            self._empty(rows)
            self._mask = None
            if self._entries is not None:
                self._entries.remove(rows)
        return rows

    def _search(self, queries: Floats, k: int, width: int, rows: Rows | None) -> tuple[Floats, Rows]:
        """Search the lowest level of the graph from the nearest entries; row -1 where it finds too few."""
        queries = np.ascontiguousarray(queries, np.float32)
        begin_squared, begin_rows = self._current_entries().nearest(queries)
        begin_rows = begin_rows.astype(np.int32)
        squared, graph_rows = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        arrays = [faiss.swig_ptr(array) for array in (begin_rows, begin_squared, squared, graph_rows)]
        options = faiss.SearchParametersHNSW(efSearch=width, sel=self._selector(rows))
        self.index.search_level_0(
            len(queries), faiss.swig_ptr(queries), k, *arrays, begin_rows.shape[1], TOGETHER, options
        )
        return squared, graph_rows

    def _current_entries(self) -> GraphEntries:
        entries = self._entries
        if entries is None or len(self.rows) > GROWTH * entries.drawn_from or len(entries) < NEAREST:
            self._entries = entries = GraphEntries(stored_vectors(self.index))
        return entries

    def _selector(self, rows: Rows | None) -> Any:
        """Return what selects the rows in a search; without `rows` those that have an image, None for all rows."""
        if rows is None:
            if len(self) == len(self.rows):
                return None
            if self._mask is None:
                self._mask = np.packbits(self.rows.used(), bitorder="little")
            return faiss.IDSelectorBitmap(self._mask)
        mask = np.zeros(len(self.rows), bool)
        mask[rows] = True
        return faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))

    def _neighbours(self, squared: Floats, rows: Rows) -> list[Neighbours]:
        distances = np.sqrt(np.maximum(squared, 0))
        return [Neighbours(*pair) for pair in zip(self.rows.numbers[rows], distances, strict=True)]

    def _empty(self, rows: Rows) -> None:
        """Replace the values of rows by the mean of those that each is linked to.

        Searches still pass over emptied rows, so their values must stay near; yet none of the image's own remains.
        """
        vectors, graph = stored_vectors(self.index), self.index.hnsw
        links = faiss.rev_swig_ptr(graph.neighbors.data(), graph.neighbors.size())
        emptied = np.zeros(len(vectors), bool)
        emptied[rows] = True
        lowest_level = graph.nb_neighbors(0)
        for row in rows.tolist():
            begin = graph.offsets.at(row)
            linked = links[begin : begin + lowest_level]
            linked = linked[linked >= 0]
            linked = linked[~emptied[linked]]
            vectors[row] = vectors[linked].mean(axis=0) if len(linked) >= MEAN_OF else 0

    @property
    def dimensions(self) -> int:
        """Length of the vectors."""
        return int(self.index.d)

    @classmethod
    def read(cls, file_rows: FileRows, file: BinaryIO, size: int) -> "FaissGraph":
        """Return the graph of a file, which is at what `write_structure` wrote; `size` is of that."""
        storage = faiss.IndexFlatL2(file_rows.dimensions)
        storage.codes.resize(4 * file_rows.vectors.size)
        storage.ntotal = len(file_rows.numbers)
        vectors = stored_vectors(storage)
        for rows, page in file_rows.checked_pages():
            vectors[rows] = page
        index = faiss.read_index(faiss.PyCallbackIOReader(file.read, WRITTEN))
        storage.this.disown()
        index.storage, index.own_fields = storage, True
        return cls(file_rows.dimensions, index, file_rows.numbers)

    def write_structure(self, writer: DigestWriter) -> None:
        """Write the graph without its vectors."""
        faiss.write_index(
            self.index, faiss.PyCallbackIOWriter(writer.write, WRITTEN), faiss.IO_FLAG_SKIP_STORAGE
        )

    def values(self, rows: Rows) -> Floats:
        """Return the stored values (n, d) of rows."""
        return stored_vectors(self.index)[rows]

    def use_file(self, vectors: Floats) -> None:
        """Do nothing: the vectors stay in memory."""

    def finish(self) -> None:
        """Do nothing: the graph grows with each image."""
