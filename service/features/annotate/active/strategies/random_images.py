"""Random selection of images; "w/o UBS" of Kadota et al. when used in rounds."""

import numpy as np

from service.features.annotate.active.candidate_pool import CandidatePool, Rows
from service.features.annotate.active.strategies.strategy_base import ImageStrategy


class Random(ImageStrategy):
    """Selects all images with the same probability."""

    name = "random"
    needs_severity = False

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        return rng.choice(pool.rows, min(count, len(pool.rows)), replace=False)
