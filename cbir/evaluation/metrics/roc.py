"""Receiver operating characteristic (ROC) of scored images, and Pos@Top."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_auc_score, roc_curve

from cbir.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Roc:
    """ROC curve: the point (0, 0), then a point for each distinct score, highest first; arrays (k,) float64.

    false_positives, true_positives: share of the negatives and of the positives scored at least `thresholds`.
    The first threshold is infinity: nothing is reported.
    """

    false_positives: NDArray[np.float64]
    true_positives: NDArray[np.float64]
    thresholds: NDArray[np.float64]

    @property
    def vertical(self) -> float:
        """Upper end of the leftmost vertical part, 0 to 1; equal to Pos@Top."""
        return float(self.true_positives[self.false_positives == 0].max())

    def corners(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return false and true positives of both ends and of the points at which the curve turns."""
        across, up = np.diff(self.false_positives), np.diff(self.true_positives)
        turns = np.abs(across[:-1] * up[1:] - across[1:] * up[:-1]) > 1e-12
        mask = np.concatenate([[True], turns, [True]])
        return self.false_positives[mask], self.true_positives[mask]

    def at(self, false_positives: ArrayLike) -> NDArray[np.float64]:
        """Interpolate the share of true positives linearly at these shares of false positives.

        At 0, and at every other vertical part, the result is its upper end.
        """
        x = np.asarray(false_positives, np.float64)
        last = np.searchsorted(self.false_positives, x, side="right") - 1
        after = np.minimum(last + 1, len(self.false_positives) - 1)
        width = self.false_positives[after] - self.false_positives[last]
        share = (x - self.false_positives[last]) / np.where(width > 0, width, 1.0)
        rise = self.true_positives[after] - self.true_positives[last]
        return np.asarray(self.true_positives[last] + share * rise)


def roc(scores: ArrayLike, positive: ArrayLike) -> Roc:
    """Return the ROC of `scores` (n,) for the mask `positive` (n,); equal scores are one point.

    Raises InvalidInput as `check_scores` does.
    """
    values, mask = check_scores(scores, positive)
    distinct, ranks = np.unique(values, return_inverse=True)
    false_positives, true_positives, thresholds = roc_curve(mask, ranks, drop_intermediate=False)
    levels = distinct[thresholds[1:].astype(np.int64)].astype(np.float64)
    return Roc(false_positives, true_positives, np.concatenate([[np.inf], levels]))


def auc(scores: ArrayLike, positive: ArrayLike) -> float:
    """Return the area under the ROC of `scores` (n,) for the mask `positive` (n,).

    It is the share of pairs in which the positive scores higher, a tie counting one half (Hanley & McNeil 1982);
    eq. 1 of Zheng et al. counts a tie as nothing. Raises InvalidInput as `check_scores` does.
    """
    values, mask = check_scores(scores, positive)
    ranks = np.unique(values, return_inverse=True)[1]  # scikit-learn refuses infinite scores
    return float(roc_auc_score(mask, ranks))


def check_scores(scores: ArrayLike, positive: ArrayLike) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Return `scores` (n,) as floats and `positive` (n,) as a mask. Infinite scores are allowed.

    Raises InvalidInput if shapes differ, a score is NaN, or there are no positives or no negatives.
    """
    values, mask = np.asarray(scores), np.asarray(positive).astype(bool)
    if values.shape != mask.shape or values.ndim != 1:
        raise InvalidInput(f"each image needs one score; got shapes {values.shape} and {mask.shape}")
    if not np.issubdtype(values.dtype, np.floating):
        values = values.astype(np.float64)
    if np.isnan(values).any():
        raise InvalidInput(
            f"{int(np.isnan(values).sum())} of {len(values)} scores are NaN; the training diverged"
        )
    if mask.all() or not mask.any():
        raise InvalidInput("ranking metrics need at least one positive and one negative image")
    return values, mask


def pos_at_top(scores: ArrayLike, positive: ArrayLike) -> float:
    """Return the share of positives scored above the highest negative, 0 to 1 (Zheng et al., Top-rank CNN, eq. 3).

    `scores` and the mask `positive` are (n,). A positive that ties with the highest negative does not count. The
    value is the length of the leftmost vertical part of the ROC. A single negative decides it, so it varies much
    between small sets. Raises InvalidInput as `check_scores` does.
    """
    values, mask = check_scores(scores, positive)
    return float((values[mask] > values[~mask].max()).mean())
