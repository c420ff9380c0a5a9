"""Enhanced pseudo-relevance feedback, EPRF-RR (Huang et al. 2012, sections 2.2 and 2.3), and its ablations."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList, best
from cbir.rerank import negatives
from cbir.rerank.base import Reranked
from cbir.rerank.ensemble import Examples
from cbir.rerank.expansion import KernelExpansion
from cbir.rerank.parameters import keep_within
from cbir.rerank.pearson import References, update
from cbir.threads import OneBlasThread

LEAST_MEMBERSHIP = 0.01  # rho, and with it the relevance of eq. 6, can be negative; a penalty cannot

# Positives that are support vectors lie on the margin of every machine: their sums are equal. The list
# before decides among them, with a weight below what float32 tells apart.
TIE = 1e-8

LIMITS: dict[str, tuple[float, float]] = {
    "K": (1, 1000), "N": (1, 10_000), "P": (1, 100), "T1": (1, 100), "T2": (1, 100), "seed": (0, 2**32 - 1),
    "lam": (0, 1000), "alpha": (0, 1), "lowest": (0, 1), "C": (1e-4, 1e4), "gamma": (1e-6, 1e6),
}  # fmt: skip


def sigmoid(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """1 / (1 + exp(-x)), without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * values))


class Relevance(Reranked):
    """Scores are sums of decision values, shown as probabilities (Huang et al. 2012, eq. 7).

    The sigmoid itself reaches 1.0 in floating point and would tie the best images.
    """

    def shown(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        return sigmoid(scores)


@dataclass(frozen=True, kw_only=True)
class Eprf:
    """Pearson update, relevance estimate, fuzzy SVM ensemble over the whole collection.

    K, N, lam: of the similarity update. P: positives, and negatives, of a machine. T1, T2: machines that estimate
    relevance, and that rank. alpha: weight of the machines against rho in the relevance. lowest: share
    of the list that negatives come from. C: penalty. gamma: of the kernel exp(-gamma / d |x - v|^2), d dimensions;
    standardised images are about 2 d apart, and below 1 the kernel tells too few of them apart.
    """

    name: ClassVar[str] = "eprf"
    similarity_update: ClassVar[bool] = True
    fuzzy: ClassVar[bool] = True

    K: int = 60
    N: int = 1000
    lam: float = 1.0
    P: int = 6
    T1: int = 10
    T2: int = 10
    alpha: float = 0.4
    lowest: float = 0.10
    C: float = 1.0
    gamma: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        keep_within(self, LIMITS)

    @property
    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def __call__(self, query: NDArray[np.float32], ranking: RankingList, gallery: Gallery) -> Reranked:
        with OneBlasThread():
            return self._rerank(query, ranking, gallery)

    def _rerank(self, query: NDArray[np.float32], ranking: RankingList, gallery: Gallery) -> Reranked:
        references = References(query, ranking, gallery, self.N)
        scores = ranking.similarities
        if self.similarity_update:
            scores = update(ranking, references, gallery, self.K, self.lam)
        drawn = negatives.draw(
            query, scores, P=self.P, sets=self.T1 + self.T2, lowest=self.lowest, seed=self.seed
        )
        if drawn.shape[1] == 0:
            note = f"{len(ranking)} images leave none to learn from as irrelevant: not re-ranked by machines"
            return Reranked(scores, notes=(note,))
        positives = best(scores, self.P)
        examples = Examples(positives, drawn, query, ranking, gallery, self.gamma / gallery.dimensions)
        expansion = self.expansion(examples, references, gallery.vectors(ranking.rows[positives]))
        sums = expansion.values(gallery, ranking.rows).astype(np.float64)
        return Relevance(sums + TIE * scores, notes=_notes(self.P, drawn))

    def expansion(
        self, examples: Examples, references: References, positives: NDArray[np.float32]
    ) -> KernelExpansion:
        """The sum of the ranking machines' decision values; positives: (P, d), vectors of the positive examples."""
        membership = np.ones(len(positives))
        if self.fuzzy:
            membership = self._relevance(examples, references.correlations(positives))
        return examples.train(slice(self.T1, None), self.C, membership).sum()

    def _relevance(self, examples: Examples, rho: NDArray[np.float64]) -> NDArray[np.float64]:
        """R (P,) of the positives, within [0.01, 1]: Huang et al. 2012, eqs. 4 to 6."""
        decisions = examples.train(slice(0, self.T1), self.C, np.ones(len(rho))).of_positives()
        relevance = self.alpha * sigmoid(decisions).mean(axis=0) + (1.0 - self.alpha) * rho
        return np.clip(relevance, LEAST_MEMBERSHIP, 1.0)


class NoSimilarityUpdate(Eprf):
    """NSU-EPRF-RR (Huang et al. 2012, section 3): EPRF-RR on the original list; K and lam have no effect."""

    name = "nsu-eprf"
    similarity_update = False


class PlainEnsemble(Eprf):
    """SVM-EPRF-RR (Huang et al. 2012, section 3): every membership is 1; alpha has no effect."""

    name = "svm-eprf"
    fuzzy = False


def _notes(P: int, drawn: NDArray[np.int64]) -> tuple[str, ...]:
    count = drawn.shape[1]
    return () if count == P else (f"{count} negatives a machine instead of {P}: there are no more images",)
