"""The most uncertain images of every step of severity: ours."""

import numpy as np

from cbir.active.candidate_pool import CandidatePool, Rows
from cbir.active.strategies.strategy_base import ImageStrategy, required_severity

STEPS = 8  # of severity, equally wide
ENDS = (0.01, 0.99)  # quantiles that the steps lie between: one odd image is not to stretch them


class Balanced(ImageStrategy):
    """Steps of equal width between the lowest and the highest estimated severity take turns.

    Each gives its most uncertain image. Where severe cases are rare, uncertainty alone brings in more of them only
    as far as it happens to rise with severity; equal turns do so by construction, and keep all others in sight.
    """

    name = "balanced"

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        severity = required_severity(pool)
        mean, uncertain = severity.mean[pool.rows], severity.variance[pool.rows]
        if not len(mean):
            return pool.rows
        low, high = (float(of) for of in np.quantile(mean, ENDS))
        edges = np.linspace(low, high, STEPS + 1)[1:-1]
        step = np.searchsorted(edges, mean, "right")
        order = np.lexsort((rng.random(len(mean)), -uncertain, step))
        begins = np.searchsorted(step[order], np.arange(STEPS))
        turn = np.arange(len(mean)) - begins[step[order]]  # place within the step
        return pool.rows[order[np.lexsort((rng.random(len(mean)), turn))[:count]]]
