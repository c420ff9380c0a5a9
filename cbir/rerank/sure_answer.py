"""First answer of a re-ranked list: the nearest image keeps it where it is clearly nearer than the others.

Re-ranking only when the first answer is unsure is the idea of arXiv:2406.11242; this criterion is ours.
"""

import numpy as np

from cbir.gallery.knn_graph import SCALE
from cbir.gallery.vector_blocks import Rows, Scores
from cbir.rerank.backend import Backend

STEP = 1e-9  # between the first score and the others, in float64


def keep_sure_first(backend: Backend, scores: Scores, sure: float) -> Scores:
    """Put the nearest image first if the fifth is at least 1 / `sure` times as far from the query.

    Parameters
    ----------
    backend : Backend
        Ranking list of the query.
    scores : (m,) floating
        Scores of its rows after re-ranking, at most 0.
    sure : float
        Share in [0, 1]; 0: keep the scores.

    Returns
    -------
    (m,) floating
        The scores in the same order but for the nearest image.
    """
    row = sure_row(backend, sure)
    if row is None:
        return scores
    kept = scores - STEP
    kept[np.searchsorted(backend.ranking.rows, row)] = 0.0
    return kept


def place_sure_first(
    backend: Backend, rows: Rows, scores: Scores, sure: float, refused: Rows | None = None
) -> tuple[Rows, Scores]:
    """Put the nearest image first where `keep_sure_first` does, for scores of any scale.

    Parameters
    ----------
    backend, sure
        As for `keep_sure_first`.
    rows : (r,) int64
        Gallery rows, ascending. If they lack the nearest image, it joins them.
    scores : (r,) floating
        Their scores after re-ranking.
    refused : (j,) int64, optional
        Gallery rows that are not put first.

    Returns
    -------
    rows : (r,) or (r + 1,) int64
        Gallery rows, ascending.
    scores : (r,) or (r + 1,) floating
        Their scores, of which that of the nearest image alone may differ.
    """
    row = sure_row(backend, sure)
    if row is None or not len(rows) or rows[np.argmax(scores)] == row:
        return rows, scores
    if refused is not None and row in refused:
        return rows, scores
    highest = scores.max() + STEP
    position = int(np.searchsorted(rows, row))
    if position == len(rows) or rows[position] != row:
        return np.insert(rows, position, row), np.insert(scores, position, highest)
    scores = scores.copy()
    scores[position] = highest
    return rows, scores


def sure_row(backend: Backend, sure: float) -> int | None:
    """Return the gallery row of the nearest image if the fifth is at least 1 / `sure` times as far, else None."""
    if sure <= 0.0 or len(backend) < SCALE:
        return None
    ranking = backend.ranking
    nearest = int(np.argmin(ranking.distances))
    if np.count_nonzero(ranking.distances * sure <= ranking.distances[nearest]) >= SCALE:
        return None
    return int(ranking.rows[nearest])
