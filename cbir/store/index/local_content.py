"""Content of a local index in memory and in its file, the numbers of its rows, and exact comparison with queries."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats, Rows
from cbir.store.index.port import Neighbours, Numbers

SLACK = 8  # vectors found besides: sums in another order may exchange equal distances
NO_IMAGE = -1  # in place of the number of a dropped row; in place of the row of an unknown number
SPARE = 1.25  # growth of the arrays


def nearest_vectors(queries: Floats, numbers: Numbers, vectors: Floats, k: int) -> list[Neighbours]:
    """Return the k nearest of vectors to each query, or all where there are fewer.

    Parameters
    ----------
    queries : (q, d) float32
    numbers : (n,) int64
        Images of the vectors, ascending.
    vectors : (n, d) float32
    k : int
    """
    count = min(k + SLACK, len(numbers))
    if not count:
        return [Neighbours(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
    queries = np.ascontiguousarray(queries, np.float32)
    _, rows = faiss.knn(queries, np.ascontiguousarray(vectors, np.float32), count)
    return [
        _ordered(query, numbers[query_rows], vectors[query_rows], k)
        for query, query_rows in zip(queries, rows, strict=True)
    ]


def _ordered(query: Floats, numbers: Numbers, vectors: Floats, k: int) -> Neighbours:
    distances = np.sqrt(np.square(vectors - query).sum(axis=1))
    order = np.lexsort((numbers, distances))[:k]
    return Neighbours(numbers[order], distances[order])


def join_neighbours(answers: Sequence[Neighbours], k: int) -> Neighbours:
    """Return the k nearest of several answers to the same query, which share no image."""
    numbers = np.concatenate([answer.numbers for answer in answers])
    distances = np.concatenate([answer.distances for answer in answers])
    order = np.lexsort((numbers, distances))[:k]
    return Neighbours(numbers[order], distances[order])


class NumberedRows:
    """The image number of each row, and the row of each number.

    Arrays, since a dictionary takes 100 bytes an image.
    """

    def __init__(self, numbers: Numbers | None = None) -> None:
        self._numbers = np.empty(0, np.int64) if numbers is None else numbers
        self._rows = np.empty(0, np.int64)
        self._count = len(self._numbers)
        used = np.flatnonzero(self._numbers != NO_IMAGE)
        self.images = len(used)
        self._note_rows(self._numbers[used], used)

    def __len__(self) -> int:
        return self._count

    @property
    def numbers(self) -> Numbers:
        """Number of each row; NO_IMAGE for dropped ones."""
        return self._numbers[: self._count]

    def used(self) -> NDArray[np.bool_]:
        """Return whether each row has an image."""
        return np.not_equal(self.numbers, NO_IMAGE)

    def rows(self, numbers: Numbers) -> Rows:
        """Return the rows of those of the numbers that have one, in the order of `numbers`."""
        valid_numbers = numbers[(numbers >= 0) & (numbers < len(self._rows))]
        rows = self._rows[valid_numbers]
        return np.asarray(rows[rows != NO_IMAGE], np.int64)

    def add(self, numbers: Numbers) -> None:
        """Give the next rows to images, whose numbers must be unknown."""
        end = self._count + len(numbers)
        self._numbers = _grown(self._numbers, end)
        self._numbers[self._count : end] = numbers
        self._note_rows(numbers, np.arange(self._count, end))
        self._count = end
        self.images += len(numbers)

    def drop(self, numbers: Numbers) -> Rows:
        """Take the rows from images, and return them; unknown numbers are ignored."""
        rows = np.unique(self.rows(numbers))
        self._rows[self._numbers[rows]] = NO_IMAGE
        self._numbers[rows] = NO_IMAGE
        self.images -= len(rows)
        return rows

    def _note_rows(self, numbers: Numbers, rows: Rows) -> None:
        self._rows = _grown(self._rows, int(numbers.max(initial=-1)) + 1)
        self._rows[numbers] = rows


def _grown(values: Numbers, length: int) -> Numbers:
    """Return `values`, or a longer copy that is filled with NO_IMAGE."""
    if length <= len(values):
        return values
    grown = np.full(int(length * SPARE), NO_IMAGE, np.int64)
    grown[: len(values)] = values
    return grown


class DigestWriter(Protocol):
    """Writes to a file, and computes the digest of what it has written."""

    def write(self, content: bytes) -> int:
        """Append `content`."""


@dataclass(frozen=True, eq=False)
class FileRows:
    """Rows of a file.

    numbers: (n,) int64, the image of each row. vectors: (n, d) float32, mapped privately. pages: yields all of them
    in parts, once; raises CollectionDamaged where one has changed since it was written.
    """

    numbers: Numbers
    vectors: Floats
    checked_pages: Callable[[], Iterator[tuple[slice, Floats]]]

    @property
    def dimensions(self) -> int:
        return int(self.vectors.shape[1])


class LocalContent(Protocol):
    """Vectors (d,) by image number. Not thread-safe while it changes."""

    @property
    def dimensions(self) -> int:
        """Length of the vectors."""

    @property
    def rows(self) -> NumberedRows:
        """Image numbers of its rows."""

    def __len__(self) -> int: ...

    def nearest(self, queries: Floats, k: int, numbers: Numbers | None) -> list[Neighbours]:
        """Return the k nearest of the images `numbers`, None for all, to each query (q, d)."""

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return those of the numbers that are known, ascending, and their vectors (n, d)."""

    def has(self, numbers: Numbers, vectors: Floats) -> NDArray[np.bool_]:
        """Return whether each number is known with exactly this vector."""

    def put(self, numbers: Numbers, vectors: Floats) -> None:
        """Add images with their vectors (n, d), or replace them."""

    def delete(self, numbers: Numbers) -> Rows:
        """Delete images, and return their rows, whose values no longer show them; unknown numbers are ignored."""

    def finish(self) -> None:
        """Make it fit for searches after many images were added; others may search meanwhile."""

    def values(self, rows: Rows) -> Floats:
        """Return the stored values (n, d) of rows."""

    def write_structure(self, writer: DigestWriter) -> None:
        """Write what finds the nearest, without vectors."""

    def use_file(self, vectors: Floats) -> None:
        """Take note of a file that now has all rows, mapped as `vectors` (n, d)."""


@dataclass(frozen=True)
class LocalKind:
    """Kind of local index.

    suffix: of its files. empty: makes one for vectors of a length. read: makes one from the rows of a
    file, which is at the structure of so many bytes.
    """

    suffix: str
    empty: Callable[[int], LocalContent]
    read: Callable[[FileRows, BinaryIO, int], LocalContent]
