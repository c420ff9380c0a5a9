"""Pos@Top: the share of positives above every negative."""

from numpy.typing import ArrayLike

from cbir.evaluation.metrics.roc import check_scores


def pos_at_top(scores: ArrayLike, positive: ArrayLike) -> float:
    """Return the share of positives scored above the highest negative, 0 to 1 (Zheng et al., Top-rank CNN, eq. 3).

    `scores` and the mask `positive` are (n,). A positive that ties with the highest negative does not count. The
    value is the length of the leftmost vertical part of the ROC. A single negative decides it, so it varies much
    between small sets. Raises InvalidInput as `check_scores` does.
    """
    values, mask = check_scores(scores, positive)
    return float((values[mask] > values[~mask].max()).mean())
