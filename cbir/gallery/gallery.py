"""The vectors of a collection as a query sees them: immutable, in place, never copied as a whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.live_graph import Neighbourhood
from cbir.gallery.whitening import SAMPLE, Space, fit_space
from cbir.threads import cores, for_each

CHUNK = 2048  # rows a thread works on at a time: 2048 x 168 float32 and their results stay in its cache
ROWS_A_THREAD = 32_768  # for fewer, a thread costs more than it saves in a matrix-vector product

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Gallery:
    """n vectors of d dimensions in one or more blocks; a row is a vector's place, 0..n-1.

    blocks: float32 matrices (n_b, d), C-contiguous. The first usually views the memory-mapped snapshot, the
        last holds what was added since.
    ids: (n,) int64, strictly ascending: the collection's own number of each row's image.
    parts: start and stop of each part of the descriptor; none where it is all of one kind.
    neighbourhood: how the images lie to each other; None where no snapshot has told it.
    """

    blocks: tuple[NDArray[np.float32], ...]
    ids: NDArray[np.int64]
    parts: tuple[tuple[int, int], ...] = ()
    neighbourhood: Neighbourhood | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimensions(self) -> int:
        return int(self.blocks[0].shape[1])

    @cached_property
    def squared_norms(self) -> NDArray[np.float32]:
        """(n,) float32: |x|^2 of every row."""
        norms = np.empty(len(self), np.float32)
        for where, vectors in self.chunks():
            np.einsum("ij,ij->i", vectors, vectors, out=norms[where])
        return norms

    @cached_property
    def space(self) -> Space:
        """Where neighbours are told: the neighbourhood's, or learnt from these vectors."""
        if self.neighbourhood is not None:
            return self.neighbourhood.space
        return self.space_of(np.arange(len(self)))

    def space_of(self, rows: Rows) -> Space:
        """The space learnt from the named rows alone, of which SAMPLE at most are read."""
        chosen = np.unique(np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).astype(np.int64))
        return fit_space(self.vectors(rows[chosen]), self.parts)

    def chunks(self, rows: Rows | None = None) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Pieces of at most CHUNK vectors, in order: of all rows, or of the named `rows` (ascending).

        Yields (slice into the result, (m, d) float32): views of rows that follow each other, else copies.
        """
        if rows is not None:
            for start in range(0, len(rows), CHUNK):
                piece = rows[start : start + CHUNK]
                yield slice(start, start + len(piece)), self._run(piece)
            return
        done = 0
        for block in self.blocks:
            for start in range(0, len(block), CHUNK):
                piece_of_block = block[start : start + CHUNK]
                yield slice(done, done + len(piece_of_block)), piece_of_block
                done += len(piece_of_block)

    def _run(self, rows: Rows) -> NDArray[np.float32]:
        """`vectors`, but a view where the ascending rows follow each other within one block."""
        first, last = int(rows[0]), int(rows[-1])
        if last - first + 1 == len(rows):
            for block in self.blocks:
                if first < len(block):
                    return block[first : last + 1] if last < len(block) else self.vectors(rows)
                first, last = first - len(block), last - len(block)
        return self.vectors(rows)

    def vectors(self, rows: Rows) -> NDArray[np.float32]:
        """(m, d) float32: a copy of the named rows."""
        if len(self.blocks) == 1:
            return self.blocks[0][rows]
        found = np.empty((len(rows), self.dimensions), np.float32)
        first = 0
        for block in self.blocks:
            here = (rows >= first) & (rows < first + len(block))
            found[here] = block[rows[here] - first]
            first += len(block)
        return found

    def distances(self, query: NDArray[np.float32], rows: Rows | None = None) -> NDArray[np.float32]:
        """Euclidean distances (m,) float32 of `query` (d,) to all rows or the named ones.

        Uses |q|^2 - 2 q.x + |x|^2, one matrix-vector product; `exact_distances` has no cancellation.
        """
        total = len(self) if rows is None else len(rows)
        squared = np.empty(total, np.float32)

        def multiply(where: slice, vectors: NDArray[np.float32]) -> None:
            np.dot(vectors, query, out=squared[where])

        for_each(self.chunks(rows), multiply, min(cores(), total // ROWS_A_THREAD))
        squared *= -2.0
        squared += self.squared_norms if rows is None else self.squared_norms[rows]
        squared += np.float32(query @ query)
        np.maximum(squared, 0.0, out=squared)
        return np.sqrt(squared, out=squared)

    def exact_distances(self, query: NDArray[np.float32], rows: Rows) -> NDArray[np.float32]:
        """Euclidean distances (m,) float32 to the named rows from their differences: 0 for an equal vector."""
        difference = self.vectors(rows) - query
        return np.sqrt(np.einsum("ij,ij->i", difference, difference))
