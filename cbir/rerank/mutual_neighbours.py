"""Neighbours that the nearest images share with the query, as a part of another method's scores."""

import numpy as np

from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import Scores
from cbir.rerank.backend import Backend
from cbir.rerank.k_reciprocal import KReciprocal, mutual_closeness

NEAREST = 200  # images that are encoded: as `M` of k-reciprocal, in a few milliseconds


def add_mutual_closeness(backend: Backend, scores: Scores, weight: float) -> Scores:
    """Add the closeness of k-reciprocal encoding (Zhong et al. 2017, section 3.5) to the nearest images' scores.

    Parameters
    ----------
    backend : Backend
        Ranking list of the query.
    scores : (m,) floating
        Scores of its rows, logarithms.
    weight : float
        Weight of the closeness, which is from 0 to 1.

    Returns
    -------
    (m,) floating
        Scores of which the largest is 0.
    """
    if not len(scores):
        return scores
    ranking = backend.ranking
    nearest = top_k(ranking.similarities, NEAREST)
    defaults = KReciprocal()
    images = backend.gallery.vectors(ranking.rows[nearest])
    scores = scores.copy()
    scores[nearest] += weight * mutual_closeness(
        backend.query, images, defaults.k1, defaults.k2, defaults.lam
    )
    return np.asarray(scores - scores.max())
