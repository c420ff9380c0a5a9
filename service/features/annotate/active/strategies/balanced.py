"""Selection of the most uncertain images at every severity; our own method."""

import numpy as np

from service.features.annotate.active.candidate_pool import CandidatePool, Rows
from service.features.annotate.active.strategies.severity_bins import severity_bins, take_turns
from service.features.annotate.active.strategies.strategy_base import ImageStrategy, required_severity


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
        return pool.rows[take_turns(severity_bins(mean), -uncertain, count, rng)]
