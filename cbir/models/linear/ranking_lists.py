"""Graded images cut into lists, as ranking functions are trained and measured on (Huang et al. 2010, IV.C)."""

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput

ListSize = int | None  # None: all images in one list
LEAST = 2


def assign_lists(count: int, size: ListSize, generator: np.random.Generator) -> NDArray[np.int64]:
    """The list (count,) each image is drawn into: lists of `size` images, or a few more so that none is short."""
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < LEAST):
        raise InvalidInput(f"a list has {LEAST} images or more, or None for all, not {size!r}")
    lists = max(1, count // size) if size is not None else 1
    if lists == 1:
        return np.zeros(count, np.int64)
    return generator.permutation(count) * lists // count


def rows_by_list(lists: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The rows of each list."""
    order = np.argsort(lists, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(lists[order])) + 1)
