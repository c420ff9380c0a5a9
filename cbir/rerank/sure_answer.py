"""First answer of a re-ranked list: the nearest image keeps it where it is clearly nearer than the others.

Re-ranking only when the first answer is unsure is the idea of arXiv:2406.11242; this criterion is ours.
"""

import numpy as np

from cbir.gallery.knn_graph import SCALE
from cbir.gallery.vector_blocks import Rows, Scores
from cbir.rerank.backend import Backend, NeedsFullList

STEP = 1e-9  # between the first score and the others, in float64


def keep_sure_first(backend: Backend, rows: Rows, scores: Scores, sure: float) -> Scores:
    """Put the nearest image first if the fifth is at least 1 / `sure` times as far from the query.

    Parameters
    ----------
    backend : Backend
        Ranking list of the query.
    rows : (r,) int64
        Gallery rows, ascending.
    scores : (r,) floating
        Their scores after re-ranking, at most 0.
    sure : float
        Share in [0, 1]; 0: keep the scores.

    Returns
    -------
    (r,) floating
        The scores in the same order but for the nearest image.

    Raises
    ------
    NeedsFullList
        If `rows` lack the nearest image.
    """
    if sure <= 0.0 or len(backend) < SCALE:
        return scores
    head = backend.head(SCALE)
    nearest = int(np.argmin(head.distances))
    if np.count_nonzero(head.distances * sure <= head.distances[nearest]) >= SCALE:
        return scores
    first = int(np.searchsorted(rows, head.rows[nearest]))
    if first == len(rows) or rows[first] != head.rows[nearest]:
        raise NeedsFullList
    kept = scores - STEP
    kept[first] = 0.0
    return kept
