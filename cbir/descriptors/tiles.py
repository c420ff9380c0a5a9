"""Working through an image in pieces that stay in the cache, in memory that is used again."""

import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import DTypeLike, NDArray

ROWS, COLUMNS = (
    512,
    512,
)  # of a tile; a dozen arrays of this size fit a second-level cache of 2 MB or nearly so


def tiles(height: int, width: int) -> Iterator[tuple[slice, slice]]:
    """The (rows, columns) of tiles that cover (height, width), row by row; those at the far edges are smaller."""
    for top in range(0, height, ROWS):
        for left in range(0, width, COLUMNS):
            yield slice(top, min(top + ROWS, height)), slice(left, min(left + COLUMNS, width))


def region_histograms(
    values: NDArray[np.uint8], regions: Sequence[tuple[slice, slice]]
) -> NDArray[np.float64]:
    """How often each value 0..255 occurs in each region: shape (regions, 256)."""
    counts = [cv2.calcHist([values[region]], [0], None, [256], [0, 256]) for region in regions]
    return np.array(counts, np.float64).reshape(len(regions), 256)


class Scratch(threading.local):
    """Named pieces of memory, one set a thread, that grow to the largest size asked for.

    Fresh memory costs more than what is computed in it: the system clears every page at its first touch.
    """

    def __init__(self) -> None:
        self._memory: dict[str, NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array with arbitrary content; it shares its memory with every earlier one of that name."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        memory = self._memory.get(name)
        if memory is None or memory.size < size:
            memory = self._memory[name] = np.empty(size, np.uint8)
        return memory[:size].view(dtype).reshape(shape)

    def copy(self, name: str, values: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
        """`values` converted, in the memory of that name."""
        copied = self.array(name, values.shape, dtype)
        copied[...] = values
        return copied
