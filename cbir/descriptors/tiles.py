"""Cache-sized tiles of an image, and scratch memory that is reused."""

import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import DTypeLike, NDArray

Region = tuple[slice, slice]  # rows and columns

ROWS, COLUMNS = 512, 512  # of a tile; a dozen arrays of this size roughly fit an L2 cache of 2 MB


def tiles(height: int, width: int) -> Iterator[Region]:
    """Yield (rows, columns) slices of tiles that cover (height, width), row by row; the last ones are smaller."""
    for top in range(0, height, ROWS):
        for left in range(0, width, COLUMNS):
            yield slice(top, min(top + ROWS, height)), slice(left, min(left + COLUMNS, width))


def region_histograms(values: NDArray[np.uint8], regions: Sequence[Region]) -> NDArray[np.float64]:
    """Return the histogram of `values` 0..255 in each region: shape (regions, 256)."""
    counts = [cv2.calcHist([values[region]], [0], None, [256], [0, 256]) for region in regions]
    return np.array(counts, np.float64).reshape(len(regions), 256)


class Scratch(threading.local):
    """Named buffers, one set per thread, that grow to the largest size requested.

    New memory would cost more than the computation in it: the system clears every page on first access.
    """

    def __init__(self) -> None:
        self._memory: dict[str, NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array with arbitrary content in the buffer of that name.

        Parameters
        ----------
        name : str
            Name of the buffer, which all arrays of this name share.
        shape : tuple of int
            Shape of the array.
        dtype : dtype
            Type of the array.
        """
        size = math.prod(shape) * np.dtype(dtype).itemsize
        memory = self._memory.get(name)
        if memory is None or memory.size < size:
            memory = self._memory[name] = np.empty(size, np.uint8)
        return memory[:size].view(dtype).reshape(shape)

    def copy(self, name: str, values: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
        """Copy an array into a buffer.

        Parameters
        ----------
        name : str
            Name of the buffer.
        values : array
            Array to copy.
        dtype : dtype
            Type of the copy.
        """
        copied = self.array(name, values.shape, dtype)
        copied[...] = values
        return copied
