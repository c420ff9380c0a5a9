"""Base classes of acquisition strategies."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from cbir.learn.severity.judged_pairs import SeverityEstimate
from service.features.annotate.active.candidate_pool import CandidatePool, Rows, pair_up


class Strategy(ABC):
    """Selects the next pairs; with `needs_severity`, it needs a trained ranker.

    With `selects_first_pairs` it selects those of the first round too, instead of Kadota et al., section 3.1. With
    `needs_encoder` it needs the `encoder_features` of the severity, so the ranker has to learn from an encoder.
    """

    name: ClassVar[str]
    needs_severity: ClassVar[bool] = True
    selects_first_pairs: ClassVar[bool] = False
    needs_encoder: ClassVar[bool] = False

    @abstractmethod
    def pairs(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        """Select new pairs.

        Parameters
        ----------
        pool : CandidatePool
            The selected pairs are marked as used in it.
        count : int
            Number of images to select, and about that of the pairs.
        rng : numpy.random.Generator

        Returns
        -------
        (m, 2) int64
            Fewer than `count` if no more are left.
        """


class ImageStrategy(Strategy):
    """Selects images, which are then paired at random (Kadota et al., section 3.3)."""

    @abstractmethod
    def images(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        """Select images.

        Parameters
        ----------
        pool : CandidatePool
        count : int
            Number of images.
        rng : numpy.random.Generator

        Returns
        -------
        (m,) int64
            Distinct rows of `pool.rows`; all of them if there are at most `count`.
        """

    def pairs(self, pool: CandidatePool, count: int, rng: np.random.Generator) -> Rows:
        return pair_up(pool, self.images(pool, count, rng), count, rng)


def required_severity(pool: CandidatePool) -> SeverityEstimate:
    """Return the severity of `pool`, which `select_pairs` has checked to be present."""
    assert pool.severity is not None
    return pool.severity
