"""The methods that learn from several examples and from judgements; EPRF and NPRF take them as sure examples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.gallery.gallery import Gallery, RankingList, top_k
from cbir.gallery.vector_blocks import Doubles, Floats, Rows, Scores, is_among
from cbir.rerank.diffusion import RelevanceFeedback
from cbir.rerank.eprf import (
    SHARPNESS,
    Eprf,
    FuzzyEprf,
    NegativeFeedback,
    NoSimilarityUpdate,
    PlainEnsemble,
    ProbabilityScores,
    weighed,
)
from cbir.rerank.feedback import Feedback
from cbir.rerank.kernel_expansion import kernel_gamma
from cbir.rerank.pearson import References, update_similarities
from cbir.rerank.query_list import QueryList, draw_negatives, place_sure_first
from cbir.rerank.reranker import TIE, Reranked, Reranker
from cbir.rerank.simple_rerankers import NoReranking
from cbir.rerank.svm_ensemble import TrainingSets, negative_notes
from cbir.system.threads import OneBlasThread

MOST_DRAWN = 100  # negatives drawn for an SVM, as many as P may be
Learner = Feedback | Reranker
AUTO_REASON = "learns from several examples and from judgements"  # why `auto` stands for feedback


@dataclass(frozen=True, eq=False)
class SureExamples:
    """Examples of a search and its judged images, each vector once and in an order of its own.

    Attributes
    ----------
    examples : (e, d) float32
        Vectors of the examples.
    positives, negatives : (s, d) and (r, d) float32
        Examples and images judged relevant; images judged not relevant.
    trust, distrust : (s,) and (r,) float64
        Their membership: 1 for examples, |relevance| for judged images.
    judged : (j,) int64
        Gallery rows of the judged images.
    """

    examples: Floats
    positives: Floats
    negatives: Floats
    trust: Doubles
    distrust: Doubles
    judged: Rows

    @classmethod
    def collect(cls, examples: Floats, feedback: RelevanceFeedback, gallery: Gallery) -> "SureExamples":
        """Collect sure examples.

        Parameters
        ----------
        examples : (n, d) float32
            Normalised vectors of the examples, n at least 1.
        feedback : RelevanceFeedback
            Judged images.
        gallery : Gallery
            Vectors of the collection.
        """
        relevant, irrelevant = feedback.relevant(), feedback.irrelevant()
        trust = np.concatenate([np.ones(len(examples)), relevant.relevance])
        positives, trust = _distinct(np.vstack([examples, gallery.vectors(relevant.rows)]), trust)
        negatives, distrust = _distinct(gallery.vectors(irrelevant.rows), -irrelevant.relevance)
        return cls(np.unique(examples, axis=0), positives, negatives, trust, distrust, feedback.rows)

    def rerank_by_eprf(self, method: Eprf, ranking: RankingList, gallery: Gallery) -> Reranked:
        """Score a list by EPRF-RR (Huang et al. 2012), with sure positives beside the P pseudo-positives.

        The rho of an image is the largest of its correlations with the lists of the examples, over the N best images
        of the joint list (eqs. 2 and 3). The relevance of eq. 6 is estimated for pseudo-positives alone.

        Parameters
        ----------
        method : Eprf
            Method with its parameters.
        ranking : RankingList
            List of m images, by the distance to the nearest example.
        gallery : Gallery
            Vectors of the collection.
        """
        references = References(self.examples, ranking, gallery, method.N)
        scores, weigh = ranking.similarities, method.weigher(QueryList(self.examples[0], ranking, gallery))
        if method.similarity_update:
            scores = update_similarities(ranking, references, gallery, method.K, method.lam, weigh)
        pseudo, training_sets, notes = self._choose(method, method.T1 + method.T2, scores, ranking, gallery)
        if training_sets is None:
            return Reranked(scores, notes=notes)
        relevance = np.ones(len(pseudo))
        if method.fuzzy:
            rho = references.correlations(gallery.vectors(pseudo))
            relevance = method.memberships(training_sets, rho, self._memberships(relevance[:0]))
            relevance = weighed(relevance, weigh, pseudo)
        rankers = training_sets.train(slice(method.T1, None), method.C, self._memberships(relevance))
        query_list = QueryList(self.examples[0], ranking, gallery)
        _, sums = query_list.add_expansion(rankers.sum(), scores, method.previous_weight)
        _, kept = place_sure_first(query_list, ranking.rows, sums, method.sure, self.judged)
        return ProbabilityScores(kept, notes=notes)

    def rerank_by_nprf(self, method: NegativeFeedback, ranking: RankingList, gallery: Gallery) -> Reranked:
        """Score a list by NPRF-RR (Yan et al. 2003), with sure positives beside the P pseudo-positives.

        Parameters
        ----------
        method : NegativeFeedback
            Method with its parameters.
        ranking, gallery
            As in `rerank_by_eprf`.
        """
        scores = ranking.similarities
        pseudo, training_sets, notes = self._choose(method, method.T, scores, ranking, gallery)
        if training_sets is None:
            return Reranked(scores, notes=notes)
        svms = training_sets.train(slice(None), method.C, self._memberships(np.ones(len(pseudo))))
        _, sums = QueryList(self.examples[0], ranking, gallery).add_expansion(svms.sum(), scores, TIE)
        return ProbabilityScores(sums, notes=notes)

    def _choose(
        self,
        method: Eprf | NegativeFeedback,
        sets: int,
        scores: Scores,
        ranking: RankingList,
        gallery: Gallery,
    ) -> tuple[Rows, TrainingSets | None, tuple[str, ...]]:
        """Return rows of pseudo-positives, the best of `scores`, and training sets; None without any negative."""
        unjudged = np.flatnonzero(~np.isin(ranking.rows, self.judged))
        pseudo = unjudged[top_k(scores[unjudged], method.P)]
        centre = self.examples.mean(axis=0, dtype=np.float32)
        count = min(len(self.positives) + len(pseudo), MOST_DRAWN)
        if ranking.sample is not None:
            unjudged = unjudged[is_among(ranking.rows[unjudged], ranking.sample)]
        picks = draw_negatives(
            centre, scores[unjudged], P=count, sets=sets, lowest=method.lowest, seed=method.seed
        )
        drawn = ranking.rows[unjudged[picks]]  # pseudo-positives, among the `count` best, are not drawn
        notes = () if len(self.negatives) else negative_notes(len(ranking), drawn, count)
        if not drawn.shape[1] and not len(self.negatives):
            return ranking.rows[pseudo], None, notes
        sharpness = method.sharpness if isinstance(method, Eprf) else SHARPNESS
        gamma = kernel_gamma(method.gamma, centre, gallery, ranking.evenly, sharpness)
        positives = np.vstack([gallery.vectors(ranking.rows[pseudo]), self.positives])
        training_sets = TrainingSets.sharing(positives, self.negatives, gallery, drawn, gamma, centre)
        return ranking.rows[pseudo], training_sets, notes

    def _memberships(self, relevance: Doubles) -> Doubles:
        """Return the memberships of the examples that all sets share; `relevance` is that of pseudo-positives."""
        return np.concatenate([relevance, self.trust, self.distrust])


def _distinct(vectors: Floats, memberships: Doubles) -> tuple[Floats, Doubles]:
    """Return each vector once, with its largest membership."""
    if not len(vectors):
        return vectors, memberships
    distinct, inverse = np.unique(vectors, axis=0, return_inverse=True)
    largest = np.zeros(len(distinct))
    np.maximum.at(largest, inverse.ravel(), memberships)
    return distinct, largest


def takes_several_examples(method: type[Reranker]) -> bool:
    """Return whether a re-ranker takes several examples and judgements."""
    return method in (NoReranking, Eprf, NoSimilarityUpdate, PlainEnsemble, FuzzyEprf, NegativeFeedback)


def learner_names() -> tuple[str, ...]:
    """Return the names of all methods that take several examples and judgements."""
    return (Feedback.name, *(method.name for method in rerank.RERANKERS if takes_several_examples(method)))


def get_learner(name: str, tuned: Mapping[str, Any], parameters: Mapping[str, Any]) -> Learner:
    """Return the method `name` for several examples and judgements.

    Parameters
    ----------
    name : str
        Name of the method; "auto" for `Feedback`.
    tuned : mapping
        Parameters of the profile, for re-rankers that have them.
    parameters : mapping
        Parameters of the request, which replace them.

    Raises
    ------
    InvalidInput
        For an unknown name or parameter, a value out of bounds, or a re-ranker that takes one example only.
    """
    if name in ("auto", Feedback.name):
        return Feedback.from_values(Feedback.name, parameters)
    if not takes_several_examples(rerank.reranker_class(name)):
        raise InvalidInput(
            f"rerank: {name} takes one example and no judgements; with more, send auto or one of "
            f"{', '.join(learner_names())}"
        )
    if name == NegativeFeedback.name:  # Yan et al. 2003: positives are the examples, not the first answers
        parameters = {"P": 0, **parameters}
    return rerank.get_tuned(name, tuned, parameters)


def learn(
    learner: Learner, examples: Floats, feedback: RelevanceFeedback, ranking: RankingList, gallery: Gallery
) -> Reranked:
    """Score a ranking list by what a method learns from examples and judgements.

    Parameters
    ----------
    learner : Feedback or Reranker
        Method, from `get_learner`.
    examples : (e, d) float32
        Normalised vectors of the examples, e at least 1.
    feedback : RelevanceFeedback
        Judged images; they need not be in the list.
    ranking : RankingList
        List of m images, by the distance to the nearest example.
    gallery : Gallery
        Vectors of the collection.
    """
    if isinstance(learner, Feedback):
        return learner(examples, feedback, ranking, gallery)
    if isinstance(learner, NoReranking):
        return learner(examples[0], ranking, gallery)
    with OneBlasThread():
        sure = SureExamples.collect(examples, feedback, gallery)
        if isinstance(learner, Eprf):
            return sure.rerank_by_eprf(learner, ranking, gallery)
        if isinstance(learner, NegativeFeedback):
            return sure.rerank_by_nprf(learner, ranking, gallery)
    raise TypeError(f"{learner.name} takes one example")
