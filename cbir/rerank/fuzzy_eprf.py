"""EPRF whose memberships act: few references, a penalty that binds, relevance spread over the positives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cbir.gallery.vector_blocks import Doubles
from cbir.rerank.eprf import LEAST_MEMBERSHIP, Eprf
from cbir.rerank.parameters import parameter
from cbir.rerank.reranker import POSITIVES, Grid
from cbir.rerank.svm_ensemble import TrainingSets

# Penalties with which memberships act, and multiples of the automatic gamma
FUZZY_SVM_GRID: Grid = {"C": (0.03, 0.1, 0.3, 1.0), "gamma": (0.25, 0.5, 1.0, 2.0)}


@dataclass(frozen=True, kw_only=True)
class FuzzyEprf(Eprf):
    """EPRF-RR (Huang et al. 2012) with memberships (R / max R)^power, R of eq. 6, and other defaults.

    As published, a multiplier hardly ever reaches its bound C R, so that R has no effect. A penalty of 0.1 lets most
    reach it; the power spreads memberships, which otherwise differ little. N = 100 references are images like the
    query; among 1,000 most are not, and lists agree on those. A profile's parameters, which are tuned for `eprf`, do
    not apply.
    """

    name = "fuzzy-eprf"
    title = "EPRF, weighted examples"
    description = (
        "As EPRF, with more examples, each counting by how well its neighbours agree with those of the query."
    )
    grid: ClassVar[Grid] = {"P": (*POSITIVES, 20, 30), "C": (0.1, 1.0)}
    svm_grid: ClassVar[Grid] = FUZZY_SVM_GRID

    K: int = parameter(100, 1, 1000, "images whose similarity is updated")
    N: int = parameter(100, 1, 10_000, "images that a ranking list is compared over")
    P: int = parameter(20, 1, 100, "positives, and negatives, of an SVM")
    T1: int = parameter(3, 1, 100, "SVMs that estimate relevance")
    T2: int = parameter(3, 1, 100, "SVMs that rank")
    alpha: float = parameter(0.0, 0, 1, "weight of the SVMs against the correlation in the relevance")
    lowest: float = parameter(0.9, 0, 1, "share of the list that negatives come from")
    C: float = parameter(0.1, 1e-4, 1e4, "penalty")
    sharpness: float = parameter(
        3.0, 0.01, 1000, "of gamma=auto: exp(-sharpness) is the kernel at the median distance"
    )
    power: float = parameter(4.0, 0, 100, "exponent of the relevance; 0 trusts all positives alike")

    @classmethod
    def tuned_names(cls) -> tuple[str, ...]:
        return ()

    def memberships(
        self, training_sets: TrainingSets, rho: Doubles, others: Sequence[float] | Doubles = ()
    ) -> Doubles:
        if self.alpha > 0.0:
            relevance = super().memberships(training_sets, rho, others)
        else:
            relevance = np.clip(rho, LEAST_MEMBERSHIP, 1.0)
        shares = relevance / relevance.max(initial=LEAST_MEMBERSHIP)
        return np.asarray(np.maximum(shares**self.power, LEAST_MEMBERSHIP))
