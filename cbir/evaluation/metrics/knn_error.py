"""Error of nearest-neighbour classification, as in the IRMA tasks of 2005 and 2006: lower is better."""

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.metrics.voting import class_votes
from cbir.evaluation.run_matrix import JudgedBlock


def knn_error(judged: JudgedBlock, k: int) -> NDArray[np.float64]:
    """Return 1 (q,) if a vote of the first `k` answers gives another class than the query's, else 0.

    Of tied classes, that of the nearest answer wins. The mean is the error rate of ImageCLEF's automatic
    annotation tasks (Mueller et al. 2005, 2006).
    """
    votes = class_votes(judged, k)
    if not votes.shape[1]:
        return np.ones(len(votes))
    winner = votes.argmax(axis=1)[:, None]  # the first, hence nearest, of those with the most votes
    answered = np.take_along_axis(judged.classes, winner, axis=1)[:, 0]
    return np.asarray(answered != judged.query_classes, np.float64)
