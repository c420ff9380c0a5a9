"""Vectors of the rows of a local index: those of its file are mapped, later ones are in memory."""

import numpy as np

from cbir.gallery.vector_blocks import Floats, Rows

BLOCK = 65_536  # rows in memory together, so that growing copies few


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
