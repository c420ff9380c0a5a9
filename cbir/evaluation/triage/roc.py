"""The receiver operating characteristic."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.evaluation.triage.scored import split


@dataclass(frozen=True, eq=False)
class Roc:
    """A point for each score that occurs, highest first, after the point (0, 0); each array is (k,) float64.

    false_positives, true_positives: share of the negatives and of the positives scored at least `thresholds`.
    The first threshold is infinity: nothing is reported.
    """

    false_positives: NDArray[np.float64]
    true_positives: NDArray[np.float64]
    thresholds: NDArray[np.float64]

    @property
    def vertical(self) -> float:
        """Where the leftmost vertical part ends, 0 to 1: this is Pos@Top."""
        return float(self.true_positives[self.false_positives == 0].max())

    def corners(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """False and true positives of those points alone at which the curve turns, and of both ends."""
        across, up = np.diff(self.false_positives), np.diff(self.true_positives)
        turns = np.abs(across[:-1] * up[1:] - across[1:] * up[:-1]) > 1e-12
        kept = np.concatenate([[True], turns, [True]])
        return self.false_positives[kept], self.true_positives[kept]

    def at(self, false_positives: ArrayLike) -> NDArray[np.float64]:
        """The share of positives found at these shares of false positives, points joined by straight lines.

        At 0, and at every other vertical part, its upper end.
        """
        wanted = np.asarray(false_positives, np.float64)
        last = np.searchsorted(self.false_positives, wanted, side="right") - 1
        after = np.minimum(last + 1, len(self.false_positives) - 1)
        width = self.false_positives[after] - self.false_positives[last]
        share = (wanted - self.false_positives[last]) / np.where(width > 0, width, 1.0)
        rise = self.true_positives[after] - self.true_positives[last]
        return np.asarray(self.true_positives[last] + share * rise)


def roc(scores: ArrayLike, positive: ArrayLike) -> Roc:
    """The ROC of scores (n,) for what is positive (n,); equal scores are one point. O(n log n).

    Raises InvalidInput as `split` does.
    """
    positives, negatives = split(scores, positive)
    distinct = np.unique(np.concatenate([positives, negatives]))[::-1]

    def reached(values: NDArray[np.floating]) -> NDArray[np.float64]:
        below = np.searchsorted(np.sort(values), distinct, side="left")
        return np.concatenate([[0.0], (len(values) - below) / len(values)])

    thresholds = np.concatenate([[np.inf], distinct.astype(np.float64)])
    return Roc(reached(negatives), reached(positives), thresholds)
