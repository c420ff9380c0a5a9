"""Images at random: what Kadota et al. call "w/o UBS" when asked in rounds."""

import numpy as np

from cbir.active.candidate_pool import CandidatePool, Rows
from cbir.active.strategies.strategy_base import ImageStrategy


class Random(ImageStrategy):
    """Every image of the pool with the same chance."""

    name = "random"
    needs_severity = False

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        return rng.choice(pool.rows, min(count, len(pool.rows)), replace=False)
