"""Features, grades and groups as numbers that can be computed with, or an error that says what is wrong."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.errors import InvalidInput

Floats = NDArray[np.float64]


def check_features(X: ArrayLike, dimensions: int | None = None) -> Floats:
    """Features (n, d) as float64; raises InvalidInput where they are not finite numbers, or d is not `dimensions`."""
    found = _numbers(X, "features")
    if found.ndim != 2 or not found.shape[1]:
        raise InvalidInput(f"features have the shape (images, values), not {found.shape}")
    if dimensions is not None and found.shape[1] != dimensions:
        raise InvalidInput(
            f"these features have {found.shape[1]} values an image; the ranker learnt {dimensions}"
        )
    return found


def check_graded(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Features (n, d) and grades (n,) as float64, at least one; raises InvalidInput."""
    features, grades = check_features(X), _numbers(y, "grades")
    if grades.shape != (len(features),):
        raise InvalidInput(f"{len(features)} images need as many grades, not {grades.shape}")
    if not len(grades):
        raise InvalidInput("there are no graded images")
    return features, grades


def number_groups(groups: Any, count: int) -> NDArray[np.int64]:
    """The number of each image's group (n,); each its own where `groups` is None."""
    if groups is None:
        return np.arange(count)
    found = np.unique(np.asarray(groups), return_inverse=True)[1]
    if found.shape != (count,):
        raise InvalidInput(f"{count} images need as many groups, not {found.shape}")
    return found


def _numbers(values: ArrayLike, what: str) -> Floats:
    try:
        found = np.asarray(values)
        if found.dtype.kind == "c":
            raise TypeError
        found = np.asarray(found, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be real numbers") from None
    if not np.isfinite(found).all():
        raise InvalidInput(f"{what} must be finite numbers; at least one is not")
    return found
