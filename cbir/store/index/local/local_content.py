"""Interface of what a local index has in memory and in its file: a graph, or inverted lists."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats, Rows
from cbir.store.index.local.numbered_rows import NumberedRows
from cbir.store.index.port import Neighbours, Numbers


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
