"""Selection of the most uncertain images at every severity; our own method."""

import numpy as np

from cbir.active.candidate_pool import CandidatePool, Rows
from cbir.active.strategies.strategy_base import ImageStrategy, required_severity

BINS = 8  # of severity, equally wide
QUANTILES = (0.01, 0.99)  # ends of the bins, robust against outliers


class Balanced(ImageStrategy):
    """Takes the most uncertain image of each severity bin in turn.

    If severe cases are rare, uncertainty alone selects more of them only as far as it correlates with severity;
    taking turns does so by construction, without neglecting the others.
    """

    name = "balanced"

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        severity = required_severity(pool)
        mean, uncertain = severity.mean[pool.rows], severity.variance[pool.rows]
        if not len(mean):
            return pool.rows
        low, high = np.quantile(mean, QUANTILES).tolist()
        edges = np.linspace(low, high, BINS + 1)[1:-1]
        bin_of = np.searchsorted(edges, mean, "right")
        order = np.lexsort((rng.random(len(mean)), -uncertain, bin_of))
        starts = np.searchsorted(bin_of[order], np.arange(BINS))
        turn = np.arange(len(mean)) - starts[bin_of[order]]  # rank within the bin
        return pool.rows[order[np.lexsort((rng.random(len(mean)), turn))[:count]]]
