"""Image numbers of the rows of a local index, where rows are only ever added."""

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Rows
from cbir.store.index.port import Numbers

NO_IMAGE = -1  # in place of the number of a dropped row; in place of the row of an unknown number
SPARE = 1.25  # growth of the arrays


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
