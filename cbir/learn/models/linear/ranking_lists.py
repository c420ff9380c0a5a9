"""Division of graded images into ranking lists, for training and measuring (Huang et al. 2010, IV.C)."""

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput

ListSize = int | None  # None: all images in one list
LEAST = 2


def assign_lists(count: int, size: ListSize, generator: np.random.Generator) -> NDArray[np.int64]:
    """Assign images to lists at random.

    Parameters
    ----------
    count : int
        Number of images.
    size : int, optional
        Images per list, at least 2; a list has a few more rather than fewer. None: one list.
    generator : np.random.Generator
        Random numbers.

    Returns
    -------
    (count,) int
        List of each image, numbered from 0.

    Raises
    ------
    InvalidInput
        If `size` is out of range.
    """
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < LEAST):
        raise InvalidInput(f"a list has {LEAST} images or more, or None for all, not {size!r}")
    lists = max(1, count // size) if size is not None else 1
    if lists == 1:
        return np.zeros(count, np.int64)
    return generator.permutation(count) * lists // count


def rows_by_list(lists: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the rows of each list, from the list (n,) of each image."""
    order = np.argsort(lists, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(lists[order])) + 1)
