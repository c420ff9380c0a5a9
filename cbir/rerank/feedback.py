"""Relevance feedback from a person: judged images train a fuzzy SVM ensemble."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery, RankingList, top_k
from cbir.gallery.vector_blocks import Doubles, Floats, Scores, is_among
from cbir.rerank.diffusion import RelevanceFeedback, SeededDiffusion
from cbir.rerank.eprf import LEAST_MEMBERSHIP, ProbabilityScores
from cbir.rerank.kernel_expansion import KernelExpansion, kernel_gamma
from cbir.rerank.query_list import draw_negatives
from cbir.rerank.reranker import AUTO, TIE, ParameterSet, Reranked, parameter
from cbir.rerank.svm_ensemble import TrainingSets
from cbir.system.threads import OneBlasThread, checkpoint

SHARPNESS = 5.0  # as gamma = 3 on standardised vectors


@dataclass(frozen=True, kw_only=True)
class Feedback(ParameterSet):
    """The ensemble of Huang et al. 2012 (section 2.3) trained on judgements, and diffusion from judged images.

    Certain positives are the examples (membership 1) and the images judged relevant, certain negatives those
    judged not relevant, each with membership |relevance| (Lin & Wang 2002). The best unjudged images fill up to P
    positives, with membership `trust`: fewer as judgements come in. Each of T SVMs draws M unjudged images from the
    lowest share of the list, with membership `distrust`. To the mean decision value, `flow` times the logarithm of
    the flow from examples and judged images is added, see `SeededDiffusion`.
    """

    name: ClassVar[str] = "feedback"
    title: ClassVar[str] = "Learned from judgements"
    description: ClassVar[str] = (
        "Learns from several examples and judged images, and puts the whole collection in a new order."
    )

    P: int = parameter(5, 0, 100, "positives, judged relevant or best of the list")
    M: int = parameter(12, 1, 100, "unjudged negatives of an SVM")
    T: int = parameter(2, 1, 20, "SVMs")
    trust: float = parameter(0.3, 0.01, 1, "membership of unjudged positives")
    distrust: float = parameter(0.3, 0.01, 1, "membership of unjudged negatives")
    lowest: float = parameter(0.9, 0, 1, "share of the list that unjudged negatives come from")
    C: float = parameter(10.0, 1e-4, 1e4, "penalty")
    gamma: float | str = parameter(AUTO, 1e-6, 1e6, "of the kernel exp(-gamma / d |x - v|^2), d dimensions")
    flow: float = parameter(0.4, 0, 100, "weight of the diffusion")
    seed: int = parameter(0, 0, 2**32 - 1, "seed of the draw of negatives")

    def __call__(
        self, examples: Floats, feedback: RelevanceFeedback, ranking: RankingList, gallery: Gallery
    ) -> Reranked:
        """Score the images of a list by what was learned; `apply_judgements` puts the judgements themselves on top.

        Parameters
        ----------
        examples : (e, d) float32
            Normalised vectors of the examples, e at least 1; a repeated one counts once.
        feedback : RelevanceFeedback
            Judged images; they need not be in the list.
        ranking : RankingList
            List of m images.
        gallery : Gallery
            Vectors of the collection.
        """
        with OneBlasThread():
            examples = np.unique(examples, axis=0)  # also in an order of their own, which the draw depends on
            flow = SeededDiffusion().log_flow(examples, feedback, ranking, gallery) if self.flow else None
            checkpoint()
            previous = ranking.similarities.astype(np.float64)
            scores = TIE * previous
            if flow is not None:
                previous = scores = self.flow * flow + scores
            expansion = self._train(examples, feedback, previous, ranking, gallery)
            if expansion is None:
                note = f"only {len(ranking)} images: no negatives to train on; no SVM was trained"
                return Reranked(previous, notes=(note,))
            return ProbabilityScores(expansion.values(gallery, ranking.rows) / self.T + scores)

    def _train(
        self, examples: Floats, feedback: RelevanceFeedback, scores: Doubles, ranking: RankingList,
        gallery: Gallery,
    ) -> KernelExpansion | None:  # fmt: skip
        """Return the sum of the SVMs; None without negatives."""
        relevant, irrelevant = feedback.relevant(), feedback.irrelevant()
        unjudged = np.flatnonzero(~np.isin(ranking.rows, feedback.rows))
        fill = top_k(scores[unjudged], max(self.P - len(relevant.rows), 0))
        checkpoint()
        others = np.delete(unjudged, fill)
        if ranking.sample is not None:
            others = others[is_among(ranking.rows[others], ranking.sample)]
        centre = examples.mean(axis=0, dtype=np.float32)
        picks = draw_negatives(
            centre, scores[others], P=self.M, sets=self.T, lowest=self.lowest, seed=self.seed
        )
        checkpoint()
        negatives = ranking.rows[others[picks]]
        if not negatives.shape[1] and not len(irrelevant.rows):
            return None
        positives = np.concatenate([relevant.rows, ranking.rows[unjudged[fill]]])
        trusted = np.concatenate([np.ones(len(examples)), relevant.relevance, np.full(len(fill), self.trust)])
        distrusted = np.full(negatives.shape[1], self.distrust)
        memberships = np.concatenate([trusted, -irrelevant.relevance, distrusted])
        training_sets = TrainingSets.sharing(
            np.vstack([examples, gallery.vectors(positives)]),
            gallery.vectors(irrelevant.rows),
            gallery,
            negatives,
            kernel_gamma(self.gamma, centre, gallery, ranking.evenly, SHARPNESS),
            centre,
        )
        return training_sets.train(slice(None), self.C, np.maximum(memberships, LEAST_MEMBERSHIP)).sum()


def apply_judgements(scores: Scores, feedback: RelevanceFeedback, rows: NDArray[np.int64]) -> Scores:
    """Put images judged relevant first, the most relevant before the others, those judged not relevant last.

    Among equal judgements the learned score decides.

    Parameters
    ----------
    scores : (m,) floating
        Learned scores.
    feedback : RelevanceFeedback
        Judged images.
    rows : (m,) int64
        Gallery rows of the scores, ascending.

    Returns
    -------
    (m,) floating
        Scores with the judged images above and below all others.
    """
    positions = np.searchsorted(rows, feedback.rows)
    listed = np.isin(feedback.rows, rows)
    positions, relevance = positions[listed], feedback.relevance[listed]
    if not len(positions):
        return scores
    least, most = float(scores.min()), float(scores.max())
    within = (scores[positions] - least) / max(most - least, 1e-12)  # in [0, 1]
    weight = min(1e-3, 5.0 * float(np.diff(np.unique(relevance)).min(initial=1.0)))  # less than a judgement's
    result = scores.astype(np.float64)
    edge = np.where(relevance > 0.0, most + 1.0, least - 1.0)
    result[positions] = edge + 10.0 * relevance + weight * within
    return result
