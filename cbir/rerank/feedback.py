"""Feedback from the person: judged images are the training examples of a fuzzy SVM ensemble."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList, best
from cbir.rerank import negatives, svm
from cbir.rerank.base import Reranked
from cbir.rerank.eprf import TIE, Relevance
from cbir.rerank.expansion import KernelExpansion, kernel
from cbir.rerank.parameters import keep_within
from cbir.rerank.seeds import Judged, SeededFlow
from cbir.threads import OneBlasThread

LEAST_MEMBERSHIP = 0.01

LIMITS: dict[str, tuple[float, float]] = {
    "P": (0, 100), "M": (1, 100), "T": (1, 20), "seed": (0, 2**32 - 1), "trust": (0.01, 1), "distrust": (0.01, 1),
    "lowest": (0, 1), "C": (1e-4, 1e4), "gamma": (1e-6, 1e6), "flow": (0, 100),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Feedback:
    """The ensemble of Huang et al. 2012 (section 2.3) taught by a person, and relevance flowing from what is known.

    Certain positives are the examples (membership 1) and the images judged relevant, certain negatives those
    judged not relevant, each with membership |relevance| (Lin & Wang 2002). The best images nobody judged fill up
    to P positives, with membership `trust`: fewer as judgements come in. Each of T machines draws M images nobody
    judged from the lowest share of the list, with membership `distrust`. To the mean decision value, `flow` times
    the logarithm of what flows to an image from examples and judged images is added, see `SeededFlow`.

    C: penalty. gamma: of the kernel exp(-gamma / d |x - v|^2), d dimensions. seed: of the draw.
    """

    name: ClassVar[str] = "feedback"

    P: int = 5
    M: int = 12
    T: int = 2
    trust: float = 0.3
    distrust: float = 0.3
    lowest: float = 0.9
    C: float = 10.0
    gamma: float = 3.0
    flow: float = 0.4
    seed: int = 0

    def __post_init__(self) -> None:
        keep_within(self, LIMITS)

    @property
    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def __call__(
        self, examples: NDArray[np.float32], judged: Judged, ranking: RankingList, gallery: Gallery
    ) -> Reranked:
        """Scores (m,) of the list by what was learnt alone; `settled` then heeds the judgements themselves.

        examples: (e, d) float32, normalised, e at least 1. Judged images need not be in the list.
        """
        with OneBlasThread():
            return self._rerank(examples, judged, ranking, gallery)

    def _rerank(
        self, examples: NDArray[np.float32], judged: Judged, ranking: RankingList, gallery: Gallery
    ) -> Reranked:
        flow = SeededFlow().reached(examples, judged, ranking, gallery) if self.flow else None
        base = ranking.similarities.astype(np.float64)
        scores = TIE * base if flow is None else self.flow * flow + TIE * base
        machines = self._train(examples, judged, base if flow is None else scores, ranking, gallery)
        if machines is None:
            note = f"{len(ranking)} images leave none to learn from as irrelevant: no machines were trained"
            return Reranked(base if flow is None else scores, notes=(note,))
        return Relevance(machines.values(gallery, ranking.rows) / self.T + scores)

    def _train(
        self,
        examples: NDArray[np.float32],
        judged: Judged,
        standing: NDArray[np.float64],
        ranking: RankingList,
        gallery: Gallery,
    ) -> KernelExpansion | None:
        """The sum of the machines; None where nothing is negative."""
        relevant, irrelevant = judged.relevant(), judged.irrelevant()
        free = np.flatnonzero(~np.isin(ranking.rows, judged.rows))
        filled = best(standing[free], max(self.P - len(relevant.rows), 0))
        others = np.delete(free, filled)
        centre = examples.mean(axis=0, dtype=np.float32)
        drawn = others[
            negatives.draw(
                centre, standing[others], P=self.M, sets=self.T, lowest=self.lowest, seed=self.seed
            )
        ]
        if not drawn.shape[1] and not len(irrelevant.rows):
            return None
        known = np.concatenate([relevant.rows, ranking.rows[free[filled]], irrelevant.rows])
        memberships = np.concatenate(
            [
                np.ones(len(examples)),
                relevant.relevance,
                np.full(len(filled), self.trust),
                -irrelevant.relevance,
                np.full(drawn.shape[1], self.distrust),
            ]
        )
        positives = len(examples) + len(relevant.rows) + len(filled)
        signs = np.where(np.arange(len(memberships)) < positives, 1.0, -1.0)
        vectors = np.vstack([examples, gallery.vectors(known), gallery.vectors(ranking.rows[drawn.ravel()])])
        fixed = len(examples) + len(known)
        own = fixed + np.arange(drawn.size).reshape(drawn.shape)
        members = np.hstack([np.tile(np.arange(fixed), (self.T, 1)), own])
        gamma = self.gamma / gallery.dimensions
        similar = kernel(vectors, vectors, gamma, centre)[members[:, :, None], members[:, None, :]]
        bounds = np.tile(self.C * np.maximum(memberships, LEAST_MEMBERSHIP), (self.T, 1))
        coefficients, bias = svm.solve(similar, signs, bounds)
        summed = np.zeros(len(vectors))
        np.add.at(summed, members, coefficients)
        return KernelExpansion(vectors, summed, float(bias.sum()), gamma).merged()


def settled(scores: NDArray[np.floating], judged: Judged, rows: NDArray[np.int64]) -> NDArray[np.floating]:
    """The scores (m,) of `rows` (ascending) with the person's word above them.

    Images judged relevant come first, the most relevant before the others, those judged not relevant last; among
    equal judgements what was learnt decides.
    """
    places = np.searchsorted(rows, judged.rows)
    there = (
        (places < len(rows)) & (rows[np.minimum(places, len(rows) - 1)] == judged.rows) if len(rows) else []
    )
    places, relevance = places[there], judged.relevance[there]
    if not len(places):
        return scores
    least, most = float(scores.min()), float(scores.max())
    within = (scores[places] - least) / max(most - least, 1e-12)  # in [0, 1], of small weight
    result = scores.astype(np.float64)
    edge = np.where(relevance > 0.0, most + 1.0, least - 1.0)
    result[places] = edge + 10.0 * relevance + 1e-3 * within
    return result
