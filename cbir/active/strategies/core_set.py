"""Images that cover all others (Sener & Savarese 2018, greedy k-center)."""

import numpy as np
from numpy.typing import NDArray

from cbir.active.candidate_pool import CandidatePool, Rows
from cbir.active.strategies.strategy_base import ImageStrategy, required_severity


class CoreSet(ImageStrategy):
    """One after the other the image that is farthest, in features, from all that were asked or chosen before."""

    name = "core-set"

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        features = required_severity(pool).features.astype(np.float64)
        return pool.rows[farthest(features[pool.rows], features[pool.asked], count, rng)]


def farthest(
    features: NDArray[np.float64], centres: NDArray[np.float64], count: int, rng: np.random.Generator
) -> Rows:
    """Rows (m,) of features (n, d), each the farthest from `centres` (k, d) and those before it; ties by chance.

    Without any centre the first is drawn. Euclidean distance; n d (m + k) multiplications.
    """
    order = rng.permutation(len(features))
    seen, norms = features[order], (features[order] ** 2).sum(axis=1)
    nearest = np.full(len(seen), np.inf)
    for centre in centres:
        nearest = np.minimum(nearest, norms - 2 * seen @ centre + centre @ centre)
    chosen: list[int] = []
    for _ in range(min(count, len(seen))):
        place = int(np.argmax(nearest))
        chosen.append(place)
        nearest = np.minimum(nearest, norms - 2 * seen @ seen[place] + norms[place])
        nearest[chosen] = -np.inf
    return order[np.array(chosen, np.int64)]
