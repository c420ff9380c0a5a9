"""Random split into training, validation and test that keeps the images of a patient together."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput

PARTS = ("training", "validation", "test")
SHARES = (0.6, 0.2, 0.2)
Shares = tuple[float, float, float]
Parts = dict[str, NDArray[np.int64]]


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
    strata: list[list[list[int]]] = [[], []]
    for rows in _rows_by_group(groups):
        strata[0 if any(positive[row] for row in rows) else 1].append(rows)
    _check_shares(shares)
    for stratum, name in zip(strata, ("a positive", "no positive"), strict=True):
        if len(stratum) < len(PARTS):
            raise InvalidInput(
                f"training, validation and test need at least one patient each with {name} image; "
                f"there are {len(stratum)}"
            )
    return _split(strata, shares, seed)


def split_by_class(
    labels: Sequence[str], groups: Sequence[str], shares: Shares = SHARES, seed: int = 0
) -> Parts:
    """Split images so that each part has about its share of each class.

    Parameters
    ----------
    labels : (n,) str
        Classes. A group belongs to the class that most of its images have.
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
        If a part would have fewer than two classes, or the shares do not add up.
    """
    _check_shares(shares)
    strata: dict[str, list[list[int]]] = {}
    for rows in _rows_by_group(groups):
        commonest = Counter(labels[row] for row in rows).most_common(1)[0][0]
        strata.setdefault(commonest, []).append(rows)
    parts = _split((strata[label] for label in sorted(strata)), shares, seed)
    for name, rows_of_part in parts.items():
        if len({labels[row] for row in rows_of_part}) < 2:
            raise InvalidInput(f"too few images: {name} would have fewer than two classes")
    return parts


def _rows_by_group(groups: Sequence[str]) -> list[list[int]]:
    members: dict[str, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    return list(members.values())


def _check_shares(shares: Shares) -> None:
    if len(shares) != len(PARTS) or not min(shares) > 0 or not abs(sum(shares) - 1) < 1e-6:
        raise InvalidInput("the shares of training, validation and test must be above 0 and add up to 1")


def _split(strata: Iterable[list[list[int]]], shares: Shares, seed: int) -> Parts:
    """Deal the groups of each stratum in random order, each to the part that lacks most of its share."""
    random = np.random.default_rng(seed)
    parts: tuple[list[int], ...] = ([], [], [])
    for stratum in strata:
        sizes = np.zeros(len(PARTS))
        for index in random.permutation(len(stratum)).tolist():
            part = int(np.argmin(sizes / np.array(shares)))  # the first of equals: training, validation, test
            parts[part].extend(stratum[index])
            sizes[part] += len(stratum[index])
    return {name: np.sort(np.array(rows, np.int64)) for name, rows in zip(PARTS, parts, strict=True)}
