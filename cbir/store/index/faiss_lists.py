"""Inverted lists of FAISS by image number: codes of a byte a value find candidates, stored vectors compare them."""

from dataclasses import dataclass
from typing import Any, BinaryIO

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats, Rows, is_among, spread_rows, union
from cbir.store.index.local_content import (
    NO_IMAGE,
    DigestWriter,
    FileRows,
    NumberedRows,
    join_neighbours,
    nearest_vectors,
)
from cbir.store.index.port import Neighbours, Numbers
from cbir.system.threads import checkpoint

TRAINED_ON = 64  # images per list to train on, at most
ITERATIONS = 6  # of k-means
FEW_VISITS = 256  # excluded rows up to which more are fetched in place of a selector
SLACK = 0.25  # share of further rows to fetch: bytes change the order of what is nearly as far
BLOCK = 65_536  # rows in memory together, so that growing copies few
PROBES = 64  # lists that a search reads
OUTGROWN = 4  # times as many images as the lists were made for: they are made anew when the file is written
SHARE = 4  # of the images, one in so many: where a search wants more, all are compared
FEW = 2000  # images that are compared without the lists
PAGE = 65_536  # rows compared or added at a time


@dataclass(frozen=True, eq=False)
class CandidateIndex:
    """Inverted file (Jegou et al. 2011, section V) with one byte a value, over the first rows of a gallery.

    index: faiss.IndexIVFScalarQuantizer; its ids are rows.
    """

    index: Any

    def __len__(self) -> int:
        return int(self.index.ntotal)

    def nearest(self, query: Floats, count: int, probes: int, allowed: Rows | None = None) -> Rows:
        """Return `count` rows of which nearly all are among the nearest.

        Parameters
        ----------
        query : (d,) float32
            Query vector.
        count : int
            Number of rows to find; fewer where fewer are allowed.
        probes : int
            Lists to read of those where all rows are allowed; the fewer are, the more lists hold as many of them.
        allowed : (m,) int64 or None
            Rows to search, ascending and all indexed; None for all.

        Returns
        -------
        (c,) int64
            Ascending, c at least `count` where so many are allowed.
        """
        total = len(self) if allowed is None else len(allowed)
        count = min(count, total)
        if not count:
            return np.empty(0, np.int64)
        missing, selector = len(self) - total, None
        if missing > FEW_VISITS:
            assert allowed is not None
            bits = np.zeros(int(allowed[-1]) + 1, bool)  # rows beyond it count as not allowed
            bits[allowed] = True
            selector, missing = faiss.IDSelectorBitmap(np.packbits(bits, bitorder="little")), 0
        probes = int(np.ceil(probes * len(self) / total))
        fetched = min(count + int(SLACK * count) + missing, len(self))
        while True:
            checkpoint()
            options = faiss.SearchParametersIVF(nprobe=min(probes, self.index.nlist), sel=selector)
            rows = self.index.search(query[None, :], fetched, params=options)[1][0]
            rows = np.sort(rows[rows >= 0])
            rows = rows if allowed is None or selector is not None else rows[is_among(rows, allowed)]
            if len(rows) >= count or probes >= self.index.nlist:
                return np.asarray(rows, np.int64)
            probes *= 4


def sample_rows(count: int) -> Rows:
    """Return the rows, evenly spread over `count`, that an index of as many is trained on."""
    return spread_rows(count, TRAINED_ON * int(np.sqrt(count)))


def train_candidate_index(sample: Floats, count: int) -> CandidateIndex:
    """Return an empty index for `count` vectors, at least one; the number of its lists is the root of theirs.

    sample: (s, d) float32, vectors of `sample_rows`.
    """
    lists, dimensions = int(np.sqrt(count)), sample.shape[1]
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatL2(dimensions), dimensions, lists, faiss.ScalarQuantizer.QT_8bit
    )
    index.by_residual = False
    index.cp.niter, index.cp.max_points_per_centroid, index.cp.min_points_per_centroid = (
        ITERATIONS,
        TRAINED_ON,
        1,
    )
    index.train(sample)
    return CandidateIndex(index)


class StoredRows:
    """Vectors (d,) by row. Rows are only ever added.

    Parameters
    ----------
    dimensions : int
    mapped : (n, d) float32, optional
        Vectors of the first rows, in a file that is mapped privately: changing them leaves the file as it is.
    """

    def __init__(self, dimensions: int, mapped: Floats | None = None) -> None:
        self.dimensions = dimensions
        first = np.empty((0, dimensions), np.float32) if mapped is None else mapped
        self._parts: tuple[Floats, tuple[Floats, ...]] = first, ()  # replaced together: others may be reading
        self._count = len(first)

    def __len__(self) -> int:
        return self._count

    def append(self, vectors: Floats) -> None:
        """Add rows with vectors (n, d)."""
        while len(vectors):
            first, blocks = self._parts
            offset = (self._count - len(first)) % BLOCK
            if not offset:
                blocks = (*blocks, np.empty((BLOCK, self.dimensions), np.float32))
                self._parts = first, blocks
            part, vectors = np.split(vectors, [BLOCK - offset])
            blocks[-1][offset : offset + len(part)] = part
            self._count += len(part)

    def read(self, rows: Rows) -> Floats:
        """Return a copy (n, d) of the vectors of `rows`."""
        first, blocks = self._parts
        if not blocks:
            return np.asarray(first[rows])
        vectors = np.empty((len(rows), self.dimensions), np.float32)
        later = rows >= len(first)
        vectors[~later] = first[rows[~later]]
        offsets = rows - len(first)
        numbers = np.where(later, offsets // BLOCK, -1)
        for number in set(numbers[later].tolist()):
            inside = numbers == number
            vectors[inside] = blocks[number][offsets[inside] % BLOCK]
        return vectors

    def clear(self, rows: Rows) -> None:
        """Overwrite the vectors of `rows` with zeros."""
        first, blocks = self._parts
        first[rows[rows < len(first)]] = 0
        offsets = rows[rows >= len(first)] - len(first)
        for number in set((offsets // BLOCK).tolist()):
            blocks[number][offsets[offsets // BLOCK == number] % BLOCK] = 0

    def use(self, mapped: Floats) -> None:
        """Read from a file that now has all rows."""
        self._parts = mapped, ()


class FaissLists:
    """Vectors (d,) by image number. Not thread-safe while it changes.

    The lists and their codes (see `CandidateIndex`) are in memory; the vectors are in the file, and only those of a
    search's candidates are read. The codes are computed from the vectors when the file is read, so it has none: a
    deleted image's vector is overwritten in place, and nothing else there shows it.

    Parameters
    ----------
    dimensions : int
    probes : int, optional
        Lists that a search reads, of the root of the number of images.
    """

    def __init__(self, dimensions: int, probes: int = PROBES) -> None:
        self.dimensions, self.rows, self._probes = dimensions, NumberedRows(), probes
        self._stored = StoredRows(dimensions)
        self._lists: CandidateIndex | None = None
        self._trained = np.empty(0, np.uint8)  # the same without images, serialised

    def __len__(self) -> int:
        return self.rows.images

    @classmethod
    def read(cls, file_rows: FileRows, file: BinaryIO, size: int, probes: int = PROBES) -> "FaissLists":
        """Return what a file has.

        Parameters
        ----------
        file_rows : FileRows
        file : BinaryIO
            At what `write_structure` wrote.
        size : int
            Bytes of it.
        probes : int, optional
        """
        numbers, structure = file_rows.numbers, file.read(size)
        created = cls(file_rows.dimensions, probes)
        created.rows, created._stored = (
            NumberedRows(numbers),
            StoredRows(file_rows.dimensions, file_rows.vectors),
        )
        assigned = np.frombuffer(structure, "<i4", len(numbers) if structure else 0)
        created._trained = np.frombuffer(structure, np.uint8, offset=assigned.nbytes)
        index = faiss.deserialize_index(created._trained) if structure else None
        for rows, vectors in file_rows.checked_pages():
            if index is not None:
                used = np.flatnonzero((numbers[rows] != NO_IMAGE) & (assigned[rows] >= 0))
                _add(index, rows.start + used, vectors[used], assigned[rows][used].astype(np.int64))
        created._lists = None if index is None else CandidateIndex(index)
        return created

    def write_structure(self, writer: DigestWriter) -> None:
        """Write the list of each row, and the lists without images."""
        if self._lists is None:
            return
        assigned = np.full(len(self.rows), -1, "<i4")
        lists = self._lists.index.invlists
        for number in range(lists.nlist):
            size = lists.list_size(number)
            if size:
                assigned[faiss.rev_swig_ptr(lists.get_ids(number), size)] = number
        writer.write(assigned.tobytes())
        writer.write(self._trained.tobytes())

    def values(self, rows: Rows) -> Floats:
        """Return the stored vectors (n, d) of rows; zeros for those of deleted images."""
        return self._stored.read(rows)

    def use_file(self, vectors: Floats) -> None:
        """Read vectors from a file that now has all rows, mapped as `vectors` (n, d)."""
        self._stored.use(vectors)

    def finish(self) -> None:
        """Make lists where there are none, or too few for as many images."""
        count = len(self)
        if count and (self._lists is None or count > OUTGROWN * self._lists.index.nlist**2):
            used = np.flatnonzero(self.rows.used())
            sample = self._stored.read(used[sample_rows(count)])
            lists = train_candidate_index(sample, count)
            self._trained = faiss.serialize_index(lists.index)
            for start in range(0, count, PAGE):
                checkpoint()
                rows = used[start : start + PAGE]
                lists.index.add_with_ids(self._stored.read(rows), rows)
            self._lists = lists

    def nearest(self, queries: Floats, k: int, numbers: Numbers | None) -> list[Neighbours]:
        """Return the k nearest images of each query, all of them where there are fewer.

        Parameters
        ----------
        queries : (q, d) float32
        k : int
        numbers : (m,) int64 or None
            Images to search, known or not; None for all.
        """
        rows = None if numbers is None else np.sort(self.rows.rows(numbers))
        count = len(self) if rows is None else len(rows)
        k = min(k, count)
        if not k or not len(queries):
            return [Neighbours(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        if self._lists is None or count <= max(FEW, SHARE * k):
            rows = np.flatnonzero(self.rows.used()) if rows is None else rows
            return self._compare(queries, rows, k)
        candidates = [self._lists.nearest(query, k, self._probes, rows) for query in queries]
        return [
            self._compare(query[None, :], query_rows, k)[0]
            for query, query_rows in zip(queries, candidates, strict=True)
        ]

    def _compare(self, queries: Floats, rows: Rows, k: int) -> list[Neighbours]:
        """Compare queries with rows one by one."""
        best = [Neighbours(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        for start in range(0, len(rows), PAGE):
            page = rows[start : start + PAGE]
            neighbours = nearest_vectors(queries, self.rows.numbers[page], self._stored.read(page), k)
            best = (
                [join_neighbours(pair, k) for pair in zip(best, neighbours, strict=True)]
                if start
                else neighbours
            )
        return best

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return those of the numbers that are known, ascending, and their vectors (n, d)."""
        rows = self.rows.rows(union(numbers))
        return self.rows.numbers[rows].copy(), self._stored.read(rows)

    def has(self, numbers: Numbers, vectors: Floats) -> NDArray[np.bool_]:
        """Return whether each number is known with exactly this vector."""
        present = np.isin(numbers, self.rows.numbers[self.rows.rows(numbers)])
        rows = self.rows.rows(numbers[present])
        present[present] = (self._stored.read(rows) == vectors[present]).all(axis=1)
        return present

    def put(self, numbers: Numbers, vectors: Floats) -> None:
        """Add images with their vectors (n, d), or replace them."""
        self.delete(numbers)
        first = len(self.rows)
        self.rows.add(numbers)
        self._stored.append(vectors)
        if self._lists is not None:
            self._lists.index.add_with_ids(vectors, np.arange(first, first + len(numbers)))

    def delete(self, numbers: Numbers) -> Rows:
        """Delete images, and return their rows, whose vectors are overwritten; unknown numbers are ignored."""
        rows = self.rows.drop(numbers)
        if len(rows):
            self._stored.clear(rows)
            if self._lists is not None:
                self._lists.index.remove_ids(faiss.IDSelectorBatch(rows))
        return rows


def _add(index: Any, rows: Rows, vectors: Floats, lists: Numbers) -> None:
    """Add rows to the lists that they are known to belong to."""
    arrays = np.ascontiguousarray(vectors, np.float32), np.ascontiguousarray(rows, np.int64), lists
    index.add_core(len(rows), *map(faiss.swig_ptr, arrays))
