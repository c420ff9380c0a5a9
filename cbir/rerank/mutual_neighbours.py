"""Neighbours that the nearest images share with the query, as a part of another method's scores."""

import numpy as np

from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import Rows, Scores
from cbir.rerank.backend import Backend, NeedsFullList
from cbir.rerank.k_reciprocal import KReciprocal, mutual_closeness

NEAREST = 200  # images that are encoded: as `M` of k-reciprocal, in a few milliseconds


def add_mutual_closeness(backend: Backend, rows: Rows, scores: Scores, weight: float) -> Scores:
    """Add the closeness of k-reciprocal encoding (Zhong et al. 2017, section 3.5) to the nearest images' scores.

    Parameters
    ----------
    backend : Backend
        Ranking list of the query.
    rows : (r,) int64
        Gallery rows, ascending.
    scores : (r,) floating
        Their scores, logarithms.
    weight : float
        Weight of the closeness, which is from 0 to 1.

    Returns
    -------
    (r,) floating
        Scores of which the largest is 0.

    Raises
    ------
    NeedsFullList
        If `rows` lack one of the nearest images.
    """
    if not len(rows):
        return scores
    head = backend.head(NEAREST)
    nearest = head.rows[top_k(head.similarities, NEAREST)]
    positions = np.minimum(np.searchsorted(rows, nearest), len(rows) - 1)
    if (rows[positions] != nearest).any():
        raise NeedsFullList
    defaults = KReciprocal()
    images = backend.gallery.vectors(nearest)
    scores = scores.copy()
    scores[positions] += weight * mutual_closeness(
        backend.query, images, defaults.k1, defaults.k2, defaults.lam
    )
    return np.asarray(scores - scores.max())
