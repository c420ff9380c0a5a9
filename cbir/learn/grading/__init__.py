"""Grading by ranking (Huang et al. 2010): place a new case among graded ones. A new ranker is a file and a line."""

from typing import Any

from cbir.errors import InvalidInput
from cbir.learn.grading.adarank import AdaRank
from cbir.learn.grading.cnn_ranker import CnnRanker
from cbir.learn.grading.rankboost import RankBoost
from cbir.learn.grading.s_ndcg_ranker import SNdcgRanker
from cbir.learn.grading.severity_ranker import SeverityRanker
from cbir.learn.grading.tuned_cnn_ranker import TunedCnnRanker
from cbir.learn.models.linear.ranking_estimator import RankingEstimator
from cbir.learn.models.linear.ranking_svm import RankingSVM
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
        advice = did_you_mean(name, all_names())
        raise InvalidInput(f"there is no ranker {name!r}{advice or ';'} there are: {', '.join(all_names())}")
    try:
        return members[name](**options)
    except TypeError as error:
        raise InvalidInput(f"the ranker {name} does not have the options {', '.join(options)}") from error
