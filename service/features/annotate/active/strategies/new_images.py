"""Random pairs of images that have been compared least; our own method."""

import numpy as np

from service.features.annotate.active.candidate_pool import CandidatePool, Rows, pair_up
from service.features.annotate.active.strategies.strategy_base import Strategy


class NewImages(Strategy):
    """Pairs images that are in no pair yet, each once; when none is left, those in the fewest pairs.

    A pair shows two new images, where the other strategies select as many images as pairs. The first round, too:
    what a second pair tells of an image is worth less than what the first tells of another one.
    """

    name = "new-images"
    needs_severity = False
    selects_first_pairs = True

    def pairs(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        compared = np.array([len(pool.partners.get(row, ())) for row in pool.rows.tolist()])
        least = pool.rows[np.lexsort((rng.random(len(pool.rows)), compared))]
        return pair_up(pool, least[: 2 * count], count, rng)[:count]
