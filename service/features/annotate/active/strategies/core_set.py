"""Core-set selection: images that cover all others (Sener & Savarese 2018, greedy k-center)."""

import numpy as np
from numpy.typing import NDArray

from service.features.annotate.active.candidate_pool import CandidatePool, Rows
from service.features.annotate.active.strategies.strategy_base import ImageStrategy, required_severity


class CoreSet(ImageStrategy):
    """Repeatedly selects the image whose features are farthest from all images used or selected before.

    The features are those of the ranker, and change from round to round.
    """

    name = "core-set"

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        return _cover(pool, required_severity(pool).features, count, rng)


class EncoderCoreSet(ImageStrategy):
    """Selects like `CoreSet`, by the features of the pretrained encoder (Kadota et al., section 5.1.4)."""

    name = "core-set-encoder"
    needs_encoder = True

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        features = required_severity(pool).encoder_features
        assert features is not None  # checked by select_pairs
        return _cover(pool, features, count, rng)


def _cover(pool: CandidatePool, features: NDArray[np.float32], count: int, rng: np.random.Generator) -> Rows:
    wide = features.astype(np.float64)
    return pool.rows[farthest(wide[pool.rows], wide[pool.asked], count, rng)]


def farthest(
    features: NDArray[np.float64], centres: NDArray[np.float64], count: int, rng: np.random.Generator
) -> Rows:
    """Select rows one by one, each the farthest from the centres and the rows selected before.

    Parameters
    ----------
    features : (n, d) float64
    centres : (k, d) float64
        Without centres, the first row is drawn at random.
    count : int
        Number of rows.
    rng : numpy.random.Generator
        Breaks ties.

    Returns
    -------
    (m,) int64
        Rows, by Euclidean distance, in n d (m + k) multiplications.
    """
    order = rng.permutation(len(features))
    shuffled, norms = features[order], (features[order] ** 2).sum(axis=1)
    nearest = np.full(len(shuffled), np.inf)
    for centre in centres:
        nearest = np.minimum(nearest, norms - 2 * shuffled @ centre + centre @ centre)
    selected: list[int] = []
    for _ in range(min(count, len(shuffled))):
        farthest_row = int(np.argmax(nearest))
        selected.append(farthest_row)
        nearest = np.minimum(nearest, norms - 2 * shuffled @ shuffled[farthest_row] + norms[farthest_row])
        nearest[selected] = -np.inf
    return order[np.array(selected, np.int64)]
