"""Grading by ranking (Huang et al. 2010): new cases placed among graded ones. A new ranker is a file and a line."""

from typing import Any

from cbir.errors import InvalidInput
from cbir.grading.adarank import AdaRank
from cbir.grading.cnn import CnnRanker
from cbir.grading.rankboost import RankBoost
from cbir.grading.s_ndcg import SNdcgRanker
from cbir.grading.severity import SeverityRanker
from cbir.models.linear.ranking_estimator import RankingEstimator
from cbir.models.linear.ranking_svm import RankingSVM

__all__ = [
    "AdaRank",
    "CnnRanker",
    "RankBoost",
    "RankingEstimator",
    "RankingSVM",
    "SNdcgRanker",
    "SeverityRanker",
    "every_name",
    "names",
    "ranker",
]

MEMBERS: tuple[type[RankingEstimator], ...] = (SNdcgRanker, RankingSVM, AdaRank, RankBoost)


def names() -> tuple[str, ...]:
    """The rankers that learn from an image's vector."""
    return tuple(member.name for member in MEMBERS)


def every_name() -> tuple[str, ...]:
    """What `ranker` knows: `names`, and those that see a severity learnt before, or the picture itself."""
    return (*names(), SeverityRanker.name, CnnRanker.name)


def ranker(name: str, **options: Any) -> RankingEstimator:
    """A ranker by name, not yet fitted; raises InvalidInput for an unknown name or option."""
    every: tuple[type[RankingEstimator], ...] = (*MEMBERS, SeverityRanker, CnnRanker)
    for member in every:
        if member.name == name:
            try:
                return member(**options)
            except TypeError as error:
                raise InvalidInput(
                    f"the ranker {name} does not have the options {', '.join(options)}"
                ) from error
    raise InvalidInput(f"there is no ranker {name!r}; there are: {', '.join(every_name())}")
