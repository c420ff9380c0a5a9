"""Selection of the most uncertain images (Kadota et al., section 3.3)."""

import numpy as np

from service.features.annotate.active.candidate_pool import CandidatePool, Rows
from service.features.annotate.active.strategies.strategy_base import ImageStrategy, required_severity


class Variance(ImageStrategy):
    """Selects the images whose score varies most between weight samples (eq. 3); breaks ties at random."""

    name = "variance"

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        uncertain = required_severity(pool).variance[pool.rows]
        return pool.rows[np.lexsort((rng.random(len(uncertain)), -uncertain))[:count]]
