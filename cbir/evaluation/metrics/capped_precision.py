"""Precision of no more answers than there are relevant images (Denner et al. 2024, arXiv 2403.06567)."""

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.run_matrix import JudgedBlock


def capped_precision(judged: JudgedBlock, k: int) -> NDArray[np.float64]:
    """Return the precision (q,) of the first min(k, R) answers, R being the number of relevant images.

    P@k of a class with fewer than `k` images could not reach 1.
    """
    counts = np.minimum(judged.relevant, k)
    counted = np.arange(judged.hits.shape[1])[None, :] < counts[:, None]
    return np.asarray((judged.hits & counted).sum(axis=1) / counts)
