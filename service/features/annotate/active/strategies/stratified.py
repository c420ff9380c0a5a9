"""Random selection with the same number of images at every severity; our own method."""

import numpy as np

from service.features.annotate.active.candidate_pool import CandidatePool, Rows
from service.features.annotate.active.strategies.severity_bins import severity_bins, take_turns
from service.features.annotate.active.strategies.strategy_base import ImageStrategy, required_severity


class Stratified(ImageStrategy):
    """Takes a random image of each severity bin in turn, first those that are in no pair yet.

    Severe cases are rare, and random images rarely show them. Uncertain images and those far from all others are more
    often severe, but also more often unlike the rest, so that less is learned about these. This strategy takes
    severe cases as often as others, and typical ones.
    """

    name = "stratified"

    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        mean = required_severity(pool).mean[pool.rows]
        if not len(mean):
            return pool.rows
        is_used = np.isin(pool.rows, pool.asked)
        return pool.rows[take_turns(severity_bins(mean), is_used.astype(np.float64), count, rng)]
