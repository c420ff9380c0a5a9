"""Random split into training, validation and test that keeps the images of a patient together."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput

PARTS = ("training", "validation", "test")
SHARES = (0.6, 0.2, 0.2)
Shares = tuple[float, float, float]
Parts = dict[str, NDArray[np.int64]]
Strata = dict[Any, list[list[int]]]


def split_by_positive(
    positive: Sequence[bool], groups: Sequence[str], shares: Shares = SHARES, seed: int = 0
) -> Parts:
    """Split images so that each part has about its share of the groups with a positive image, and of the others.

    Parameters
    ----------
    positive : (n,) bool
        Whether an image is positive.
    groups : (n,) str
        Images of one group, such as a patient, stay together.
    shares : tuple of float
        Shares of training, validation and test; they add up to 1.
    seed : int
        Seed of the random choice.

    Returns
    -------
    dict
        Ascending rows of each of PARTS.

    Raises
    ------
    InvalidInput
        If a part would have no positive or no negative group, or the shares do not add up.
    """
    if len(shares) != len(PARTS) or not min(shares) > 0 or not abs(sum(shares) - 1) < 1e-6:
        raise InvalidInput("the shares of training, validation and test must be above 0 and add up to 1")
    strata = _strata(groups, lambda rows: not any(positive[row] for row in rows))
    for is_negative, name in enumerate(("a positive", "no positive")):
        if (count := len(strata[bool(is_negative)])) < len(PARTS):
            raise InvalidInput(
                f"training, validation and test need at least one patient each with {name} image; "
                f"there are {count}"
            )
    return _split(strata, shares, seed)


def split_by_class(labels: Sequence[str], groups: Sequence[str], seed: int = 0) -> Parts:
    """Split images so that each part has about its share (of SHARES) of each class.

    Parameters
    ----------
    labels : (n,) str
        Classes. A group belongs to the class that most of its images have.
    groups : (n,) str
        Images of one group, such as a patient, stay together.
    seed : int
        Seed of the random choice.

    Returns
    -------
    dict
        Ascending rows of each of PARTS.

    Raises
    ------
    InvalidInput
        If a part would have fewer than two classes.
    """
    strata = _strata(groups, lambda rows: Counter(labels[row] for row in rows).most_common(1)[0][0])
    parts = _split(strata, SHARES, seed)
    for name, rows_of_part in parts.items():
        if len({labels[row] for row in rows_of_part}) < 2:
            raise InvalidInput(f"too few images: {name} would have fewer than two classes")
    return parts


def _strata(groups: Sequence[str], stratum_of: Callable[[list[int]], Any]) -> Strata:
    """Return the rows of each group, by the stratum that `stratum_of` gives these rows."""
    members, strata = defaultdict(list), defaultdict(list)
    for row, group in enumerate(groups):
        members[group].append(row)
    for rows in members.values():
        strata[stratum_of(rows)].append(rows)
    return strata


def _split(strata: Strata, shares: Shares, seed: int) -> Parts:
    """Deal the groups of each stratum in random order, each to the part that lacks most of its share."""
    random = np.random.default_rng(seed)
    parts: tuple[list[int], ...] = ([], [], [])
    for _, stratum in sorted(strata.items()):
        sizes = np.zeros(len(PARTS))
        for index in random.permutation(len(stratum)).tolist():
            part = int(np.argmin(sizes / np.array(shares)))  # the first of equals: training, validation, test
            parts[part].extend(stratum[index])
            sizes[part] += len(stratum[index])
    return {name: np.sort(np.array(rows, np.int64)) for name, rows in zip(PARTS, parts, strict=True)}
