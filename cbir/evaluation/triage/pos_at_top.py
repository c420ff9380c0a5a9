"""Pos@Top: the share of positives above every negative."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.evaluation.triage.scored import split


def pos_at_top(scores: ArrayLike, positive: ArrayLike) -> float:
    """Share of the positives scored above the highest negative, 0 to 1 (Zheng et al., Top-rank CNN, eq. 3).

    A positive that ties with the highest negative does not count. It is the length of the leftmost vertical part
    of the ROC. One negative decides it, so it varies much between small sets. Raises InvalidInput as `split` does.
    """
    positives, negatives = split(scores, positive)
    return float((positives > negatives.max()).mean())


def above_every_negative(scores: ArrayLike, positive: ArrayLike) -> NDArray[np.int64]:
    """Places of these "absolute top" positives, best first."""
    _, negatives = split(scores, positive)
    values = np.asarray(scores)
    chosen = np.flatnonzero(np.asarray(positive).astype(bool) & (values > negatives.max()))
    return chosen[np.argsort(-values[chosen], kind="stable")]
