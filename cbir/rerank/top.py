"""Scores where only the best places of a list were re-ranked: they stay above all others."""

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.ranking import RankingList

TIE = 1e-8  # weight of the list before, which decides among equal closeness; below what float32 tells apart


def above_the_rest(
    ranking: RankingList, places: NDArray[np.int64], closeness: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Scores (m,) float64: 1 + closeness at `places` (the best ones), the similarity everywhere else.

    closeness: (len(places),) in [0, 1]; it is rounded to float32, so that equal images, whose sums may differ
    in their last bits, are equal again.
    """
    scores = ranking.similarities.astype(np.float64)
    scores[places] = 1.0 + closeness.astype(np.float32) + TIE * (1.0 + scores[places])
    return scores
