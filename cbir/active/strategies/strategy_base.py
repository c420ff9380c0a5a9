"""What every acquisition strategy has in common."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from cbir.active.candidate_pool import CandidatePool, Rows, pair_up
from cbir.severity.severity_estimate import SeverityEstimate


class Strategy(ABC):
    """Says which pairs are worth asking next. One with `needs_severity` cannot begin before a ranker has learnt."""

    name: ClassVar[str]
    needs_severity: ClassVar[bool] = True

    @abstractmethod
    def pairs(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        """About `count` new pairs (m, 2) of images of the pool, for as many images; fewer where there are no more."""


class ImageStrategy(Strategy):
    """Chooses images, which are then paired among themselves at random (Kadota et al., section 3.3)."""

    @abstractmethod
    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        """`count` different rows of `pool.rows`, or all of them where there are fewer."""

    def pairs(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        return pair_up(pool, self.images(pool, count, rng), count, rng)


def required_severity(pool: CandidatePool) -> SeverityEstimate:
    """The severity of a pool whose strategy needs one; `choose` has made sure that it is there."""
    assert pool.severity is not None
    return pool.severity
