"""The area under the ROC curve."""

import numpy as np
from numpy.typing import ArrayLike

from cbir.evaluation.triage.scored import split


def auc(scores: ArrayLike, positive: ArrayLike) -> float:
    """Share of pairs in which the positive is above the negative, a tie counting one half (Hanley & McNeil 1982).

    Eq. 1 of Zheng et al. counts a tie as nothing; with the half it is the area under `roc`. O(n log n).
    Raises InvalidInput as `split` does.
    """
    positives, negatives = split(scores, positive)
    ordered = np.sort(negatives)
    below = np.searchsorted(ordered, positives, side="left")
    up_to = np.searchsorted(ordered, positives, side="right")
    return float((below + up_to).sum()) / (2 * len(positives) * len(negatives))
