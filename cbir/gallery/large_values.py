"""The largest of many values, without selecting among all of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUPS = 16  # for each value that is looked for
LEAST_MEMBERS = 8  # of a group; with fewer, selecting among all is as fast


def large_values(values: NDArray[Any], count: int) -> NDArray[np.int64] | None:
    """Return ascending indices of few values, among which are the `count` largest and all that are equal to them.

    At least `count` values are as large as the count-th largest of the maxima of groups, so that smaller ones do not
    matter. None where that leaves no fewer values.
    """
    groups = GROUPS * count
    members = len(values) // groups if count else 0
    if members < LEAST_MEMBERS:
        return None
    maxima = values[: members * groups].reshape(members, groups).max(axis=0)
    bound = np.partition(maxima, groups - count)[groups - count]
    return np.flatnonzero(values >= bound)
