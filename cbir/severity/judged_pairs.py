"""Pairs that were judged, checked."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class JudgedPairs:
    """pairs: (m, 2) rows of images. labels: (m,) float32 from 0 to 1. grades: (n,) float32, NaN where unknown.

    mean_grade: of the grades that are known; None where none are. A graded image that is in no pair is paired with
    itself: RankNet learns nothing from that, the calibration does.
    """

    pairs: NDArray[np.int64]
    labels: NDArray[np.float32]
    grades: NDArray[np.float32]
    mean_grade: float | None


def check_judged_pairs(
    count: int, pairs: ArrayLike, labels: ArrayLike, grades: ArrayLike | None = None
) -> JudgedPairs:
    """Judged pairs of `count` images; raises InvalidInput where anything does not fit."""
    rows, said = np.asarray(pairs), np.asarray(labels)
    if rows.ndim != 2 or rows.shape[1:] != (2,) or rows.dtype.kind not in "iu" or not len(rows):
        raise InvalidInput("pairs are whole numbers of the shape (pairs, 2), at least one pair")
    if rows.min() < 0 or rows.max() >= count:
        raise InvalidInput(
            f"a pair names image {rows.min() if rows.min() < 0 else rows.max()} of {count} images"
        )
    if (rows[:, 0] == rows[:, 1]).any():
        raise InvalidInput("a pair needs two different images")
    if said.shape != (len(rows),) or said.dtype.kind not in "biuf" or not ((said >= 0) & (said <= 1)).all():
        raise InvalidInput(f"{len(rows)} pairs need as many labels from 0 to 1: 1, 0.5 or 0")
    if grades is None:
        known = np.full(count, np.nan, np.float32)
    else:
        known = np.asarray(grades, np.float32)
        if known.shape != (count,) or np.isinf(known).any():
            raise InvalidInput(f"{count} images need as many grades, NaN where unknown")
    graded = np.flatnonzero(~np.isnan(known))
    alone = np.setdiff1d(graded, rows)
    return JudgedPairs(
        np.concatenate([rows.astype(np.int64), np.stack([alone, alone], axis=1)]),
        np.concatenate([said.astype(np.float32), np.full(len(alone), 0.5, np.float32)]),
        known,
        float(known[graded].mean()) if len(graded) else None,
    )
