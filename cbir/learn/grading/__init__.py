"""Grading by ranking (Huang et al. 2010): place a new case among graded ones. A new ranker is a file and a line."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.grading.boosted_rankers import AdaRank, RankBoost
from cbir.learn.grading.cnn_ranker import CnnRanker, TunedCnnRanker
from cbir.learn.grading.s_ndcg_ranker import SNdcgRanker
from cbir.learn.models.linear_rankers import RankingSVM
from cbir.learn.models.ranking_estimator import LinearRanker, ListSize, RankingEstimator
from cbir.system.remedies import did_you_mean

__all__ = [
    "AdaRank",
    "CnnRanker",
    "RankBoost",
    "RankingEstimator",
    "RankingSVM",
    "SNdcgRanker",
    "SeverityRanker",
    "TunedCnnRanker",
    "all_names",
    "make_ranker",
    "names",
]

Floats = NDArray[np.float64]


class SeverityRanker(LinearRanker):
    """Order images by their severity, which is the only feature; grades are not used.

    `X` is (n, 1): the label `severity` of images in the collection, and for a new image the output of the
    collection's severity ranker. `list_size` and `seed` are for the lists of `score`.
    """

    name: ClassVar[str] = "severity"

    def __init__(self, list_size: ListSize = 20, seed: int = 0) -> None:
        self.list_size, self.seed = list_size, seed

    def _learn(self, Z: Floats, grades: Floats, groups: NDArray[np.int64]) -> None:
        if Z.shape[1] != 1:
            raise InvalidInput(f"{self.name} orders images by one value each, not by {Z.shape[1]}")
        self.coef_ = np.ones(1)


MEMBERS: tuple[type[RankingEstimator], ...] = (SNdcgRanker, RankingSVM, AdaRank, RankBoost)


def names() -> tuple[str, ...]:
    """Return the names of the rankers that learn from vectors."""
    return tuple(member.name for member in MEMBERS)


def all_names() -> tuple[str, ...]:
    """Return the names that `make_ranker` accepts: `names()`, severity and cnn."""
    return (*names(), SeverityRanker.name, CnnRanker.name)


def make_ranker(name: str, **options: Any) -> RankingEstimator:
    """Make the ranker called `name` with `options`, not fitted. Raises InvalidInput if either is unknown.

    cnn is a `TunedCnnRanker` if there is an option `encoder`, else a `CnnRanker`.
    """
    network = TunedCnnRanker if "encoder" in options else CnnRanker
    every: tuple[type[RankingEstimator], ...] = (*MEMBERS, SeverityRanker, network)
    members = {member.name: member for member in every}
    if name not in members:
        advice = did_you_mean(str(name), all_names())
        raise InvalidInput(f"there is no ranker {name!r}{advice or ';'} there are: {', '.join(all_names())}")
    try:
        return members[name](**options)
    except TypeError as error:
        raise InvalidInput(f"the ranker {name} does not have the options {', '.join(options)}") from error
