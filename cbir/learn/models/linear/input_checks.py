"""Validation of features, grades and groups."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.errors import InvalidInput

Floats = NDArray[np.float64]


def check_features(X: ArrayLike, dimensions: int | None = None) -> Floats:
    """Return features `X` (n, d) as float64; InvalidInput if they are not finite, or d is not `dimensions`."""
    features = _numbers(X, "features")
    if features.ndim != 2 or not features.shape[1]:
        raise InvalidInput(f"features have the shape (images, values), not {features.shape}")
    if dimensions is not None and features.shape[1] != dimensions:
        raise InvalidInput(
            f"these features have {features.shape[1]} values per image; the ranker was fitted with {dimensions}"
        )
    return features


def check_graded(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return features `X` (n, d) and grades `y` (n,) as float64; InvalidInput if they do not fit or are empty."""
    features, grades = check_features(X), _numbers(y, "grades")
    if grades.shape != (len(features),):
        raise InvalidInput(f"{len(features)} images need as many grades, not {grades.shape}")
    if not len(grades):
        raise InvalidInput("there are no graded images")
    return features, grades


def number_groups(groups: Any, count: int) -> NDArray[np.int64]:
    """Return the group number (n,) of each of `count` images; without `groups`, each has a group of its own."""
    if groups is None:
        return np.arange(count)
    numbers = np.unique(np.asarray(groups), return_inverse=True)[1]
    if numbers.shape != (count,):
        raise InvalidInput(f"{count} images need as many groups, not {numbers.shape}")
    return numbers


def _numbers(values: ArrayLike, what: str) -> Floats:
    try:
        numbers = np.asarray(values)
        if numbers.dtype.kind == "c":
            raise TypeError
        numbers = np.asarray(numbers, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be real numbers") from None
    if not np.isfinite(numbers).all():
        raise InvalidInput(f"{what} must be finite numbers; at least one is not")
    return numbers
