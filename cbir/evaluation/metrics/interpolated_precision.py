"""Interpolated precision, for precision-recall curves."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.run_matrix import JudgedBlock

ROUNDING = 1e-9  # 0.3 of 10 relevant images are 3, though 0.3 * 10 > 3 in floating point


def interpolated_precision(judged: JudgedBlock, recalls: Sequence[float]) -> NDArray[np.float64]:
    """Return the largest precision (q, r) at any rank whose recall is at least each of `recalls`, in [0, 1].

    0 if the run does not reach that recall. Recall is of all relevant images, retrieved or not (Manning, Raghavan &
    Schuetze 2008, section 8.4).
    """
    needed = np.ceil(np.multiply.outer(judged.relevant, recalls) - ROUNDING).astype(np.int64)
    interpolated = np.zeros(needed.shape)
    for query, hits in enumerate(judged.hits):
        ranks = np.flatnonzero(hits) + 1
        if len(ranks):
            precisions = np.arange(1, len(ranks) + 1) / ranks
            best_from = np.append(np.maximum.accumulate(precisions[::-1])[::-1], 0.0)
            interpolated[query] = best_from[np.clip(needed[query] - 1, 0, len(ranks))]
    return interpolated
