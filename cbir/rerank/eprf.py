"""Pseudo-relevance feedback: EPRF-RR (Huang et al. 2012, sections 2.2 and 2.3), its variants, and NPRF-RR."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cbir.gallery.gallery import take, top_k
from cbir.gallery.vector_blocks import Doubles, Rows, Scores
from cbir.rerank.kernel_expansion import WIDTH_SAMPLE, kernel_gamma
from cbir.rerank.pearson import References, Weigher, update_similarities
from cbir.rerank.query_list import QueryList, place_sure_first
from cbir.rerank.reranker import AUTO, POSITIVES, TIE, CollectionReranker, Grid, Reranked, parameter
from cbir.rerank.svm_ensemble import NeighbourLikeness, TrainingSets, negative_notes
from cbir.system.threads import OneBlasThread

LEAST_MEMBERSHIP = 0.01  # rho, and with it the relevance of eq. 6, can be negative; a penalty cannot
SHARPNESS = 15.0  # from 4 to 30 the mean average precision is much the same, and the first answer best here
# gamma as a multiple of the automatic one
FINE_SVM_GRID: Grid = {"C": (0.1, 1.0, 10.0, 100.0), "gamma": (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)}
SVM_GRID: Grid = {"P": POSITIVES, "C": (0.1, 1.0, 10.0), "lowest": (0.1, 0.9)}
# Penalties with which memberships act, and multiples of the automatic gamma
FUZZY_SVM_GRID: Grid = {"C": (0.03, 0.1, 0.3, 1.0), "gamma": (0.25, 0.5, 1.0, 2.0)}


def sigmoid(values: Scores) -> Scores:
    """1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)))


class ProbabilityScores(Reranked):
    """Sums of decision values, reported as probabilities (Huang et al. 2012, eq. 7).

    The sigmoid itself reaches 1.0 in floating point and would tie the best images.
    """

    def reported(self, scores: Scores) -> Scores:
        return sigmoid(scores)


@dataclass(frozen=True, kw_only=True)
class Eprf(CollectionReranker):
    """Pearson update, relevance estimate, fuzzy SVM ensemble over the whole collection.

    Positives that are support vectors are on the margin of every SVM, and their sums are equal: the previous score
    decides among them. A wide kernel separates too few images: exp(-15) is its value for two typical ones. Not in the
    paper, and 0 by default: `closeness`, with which that score counts for all images, `sure`, and `evidence`, with
    which the list says how many of the P positives count (`NeighbourLikeness`).
    """

    name = "eprf"
    title = "Learned relevance (EPRF)"
    description = (
        "Takes the first answers as examples, weighs each by how far it can be trusted, learns what sets them "
        "apart, and puts the whole collection in a new order."
    )
    grid: ClassVar[Grid] = SVM_GRID
    svm_grid: ClassVar[Grid] = FINE_SVM_GRID
    paper: ClassVar[Mapping[str, float | str]] = {  # C and gamma come from a grid search, P is from 3 to 15
        "K": 60, "N": 1000, "lam": 1.0, "P": 6, "T1": 10, "T2": 10, "alpha": 0.4, "lowest": 0.10, "C": 10.0,
        "gamma": AUTO, "sharpness": SHARPNESS, "closeness": 0.0, "sure": 0.0, "evidence": 0.0,
    }  # fmt: skip
    similarity_update: ClassVar[bool] = True
    fuzzy: ClassVar[bool] = True

    K: int = parameter(60, 1, 1000, "images whose similarity is updated")
    N: int = parameter(1000, 1, 10_000, "images that a ranking list is compared over")
    lam: float = parameter(1.0, 0, 1000, "weight of the correlation in the update")
    P: int = parameter(6, 1, 100, "positives, and negatives, of an SVM")
    T1: int = parameter(10, 1, 100, "SVMs that estimate relevance")
    T2: int = parameter(10, 1, 100, "SVMs that rank")
    alpha: float = parameter(0.4, 0, 1, "weight of the SVMs against the correlation in the relevance")
    lowest: float = parameter(0.10, 0, 1, "share of the list that negatives come from")
    C: float = parameter(10.0, 1e-4, 1e4, "penalty")
    gamma: float | str = parameter(AUTO, 1e-6, 1e6, "of the kernel exp(-gamma / d |x - v|^2), d dimensions")
    sharpness: float = parameter(
        SHARPNESS, 0.01, 1000, "of gamma=auto: exp(-sharpness) is the kernel at the median distance"
    )
    closeness: float = parameter(0.0, 0, 1000, "weight of the updated similarity beside the mean of the SVMs")
    sure: float = parameter(
        0.0, 0, 1, "the nearest stays first if its distance is below this share of the fifth's"
    )
    evidence: float = parameter(
        0.0, 0, 100, "power of the likeness by which the update and memberships are weighed; 0: not at all"
    )
    seed: int = parameter(0, 0, 2**32 - 1, "seed of the draw of negatives")

    def weigher(self, query_list: QueryList) -> Weigher | None:
        """Return the evidence for rows of the list, a share from 0 to 1; None if it does not count."""
        if not self.evidence:
            return None
        likeness = NeighbourLikeness(query_list)
        return lambda rows: likeness(rows) ** self.evidence

    @property
    def previous_weight(self) -> float:
        """Weight of the updated similarity beside the sum of T2 decision values."""
        return TIE + self.T2 * self.closeness

    def rerank(self, query_list: QueryList) -> tuple[Rows, Reranked]:
        with OneBlasThread():
            ranking = query_list.ranking
            nearest = np.sort(top_k(ranking.similarities, max(self.N, self.K + self.P)))
            near = take(ranking, nearest)
            references = References(query_list.query, near, query_list.gallery, self.N)
            similarities = ranking.similarities
            updated, weigh = near.similarities, self.weigher(query_list)
            if self.similarity_update:
                updated = update_similarities(near, references, query_list.gallery, self.K, self.lam, weigh)
                similarities = similarities.copy()
                similarities[nearest] = updated
            scores = query_list.with_scores(ranking.rows, similarities)
            negatives = query_list.draw_negatives(
                scores, P=self.P, sets=self.T1 + self.T2, lowest=self.lowest, seed=self.seed
            )
            notes = negative_notes(len(query_list), negatives, self.P)
            if not negatives.shape[1]:
                return ranking.rows, Reranked(similarities, notes=notes)
            positives = near.rows[top_k(updated, self.P)]
            training_sets = TrainingSets.around_query(
                query_list.query,
                query_list.gallery,
                positives,
                negatives,
                kernel_gamma(
                    self.gamma,
                    query_list.query,
                    query_list.gallery,
                    query_list.sample_rows(WIDTH_SAMPLE),
                    self.sharpness,
                ),
            )
            membership = np.ones(len(positives))
            if self.fuzzy:
                rho = references.correlations(query_list.gallery.vectors(positives))
                membership = self.memberships(training_sets, rho)
                membership = weighed(membership, weigh, positives)
            expansion = training_sets.train(slice(self.T1, None), self.C, membership).sum()
            rows, sums = query_list.add_expansion(expansion, scores, self.previous_weight)
            rows, sums = place_sure_first(query_list, rows, sums, self.sure)
            return rows, ProbabilityScores(sums, notes=notes)

    def memberships(
        self, training_sets: TrainingSets, rho: Doubles, others: Sequence[float] | Doubles = ()
    ) -> Doubles:
        """Return the memberships (P,) in [0.01, 1] of pseudo-positives.

        Parameters
        ----------
        training_sets : TrainingSets
            Training sets whose first P examples are the pseudo-positives.
        rho : (P,) float64
            Their correlations with the query.
        others : (o,) float64
            Memberships of the examples after them.
        """
        known = np.concatenate([np.ones(len(rho)), others])
        estimators = training_sets.train(slice(0, self.T1), self.C, known)
        return self.relevance(estimators.positive_decisions[:, : len(rho)], rho)

    def relevance(self, decisions: Doubles, rho: Doubles) -> Doubles:
        """Return R (P,) in [0.01, 1] of decision values (T1, P) and rho (P,): Huang et al. 2012, eqs. 4 to 6."""
        relevance = self.alpha * sigmoid(decisions).mean(axis=0) + (1.0 - self.alpha) * rho
        return np.asarray(np.clip(relevance, LEAST_MEMBERSHIP, 1.0))


class NoSimilarityUpdate(Eprf):
    """NSU-EPRF-RR (Huang et al. 2012, section 3): EPRF-RR on the original list; K and lam have no effect."""

    name = "nsu-eprf"
    title = "EPRF, no neighbours step"
    description = "As EPRF, from the plain order of similarity. For comparison."
    similarity_update = False

    @classmethod
    def settings_name(cls) -> str:
        return Eprf.name


class PlainEnsemble(Eprf):
    """SVM-EPRF-RR (Huang et al. 2012, section 3): every membership is 1; alpha has no effect."""

    name = "svm-eprf"
    title = "EPRF, equal weights"
    description = "As EPRF, trusting every example alike. For comparison."
    fuzzy = False

    @classmethod
    def settings_name(cls) -> str:
        return Eprf.name


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
    paper: ClassVar[Mapping[str, float | str]] = {}  # its values are ours
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


def weighed(memberships: Doubles, weigh: Weigher | None, rows: Rows) -> Doubles:
    """Multiply memberships by the evidence.

    Parameters
    ----------
    memberships : (p,) float64
        Of images.
    weigh : callable or None
        Returns the evidence for gallery rows, from 0 to 1; None if it does not count.
    rows : (p,) int64
        Gallery rows of the images.

    Returns
    -------
    (p,) float64
        At least 0.01.
    """
    if weigh is None:
        return memberships
    return np.asarray(np.maximum(memberships * weigh(rows), LEAST_MEMBERSHIP))


@dataclass(frozen=True, kw_only=True)
class NegativeFeedback(CollectionReranker):
    """Rank the whole collection by SVMs that separate the query from images at the end of the list.

    R. Yan, A. Hauptmann, R. Jin: Multimedia search with pseudo-relevance feedback, CIVR 2003. Positives are the
    query and, as Huang et al. 2012 (section 3) do for queries of a single image, the P best images of the list. Each
    of T SVMs has its own negatives, as many as positives, drawn from the end of the list. The score of x is the sum
    of decision values f_1(x) + ... + f_T(x).
    """

    name = "nprf"
    title = "Negative feedback (NPRF)"
    description = (
        "Learns what sets the query and the first answers apart from images far down the list, and puts the whole "
        "collection in a new order."
    )
    grid: ClassVar[Grid] = SVM_GRID
    svm_grid: ClassVar[Grid] = FINE_SVM_GRID
    # The query alone; ten SVMs and the lowest tenth are those of Huang et al. 2012.
    paper: ClassVar[Mapping[str, float | str]] = {"P": 0, "T": 10, "lowest": 0.10, "C": 10.0, "gamma": AUTO}

    P: int = parameter(6, 0, 100, "images taken as positive examples beside the query")
    T: int = parameter(10, 1, 100, "SVMs")
    lowest: float = parameter(0.10, 0, 1, "share of the list that negatives come from")
    C: float = parameter(10.0, 1e-4, 1e4, "penalty")
    gamma: float | str = parameter(AUTO, 1e-6, 1e6, "of the kernel exp(-gamma / d |x - v|^2), d dimensions")
    seed: int = parameter(0, 0, 2**32 - 1, "seed of the draw of negatives")

    def rerank(self, query_list: QueryList) -> tuple[Rows, Reranked]:
        with OneBlasThread():
            ranking, count = query_list.ranking, self.P + 1
            scores = query_list.with_scores(ranking.rows, ranking.similarities)
            negatives = query_list.draw_negatives(
                scores, P=count, sets=self.T, lowest=self.lowest, seed=self.seed
            )
            notes = negative_notes(len(query_list), negatives, count)
            if not negatives.shape[1]:
                return ranking.rows, Reranked(ranking.similarities, notes=notes)
            positives = ranking.rows[top_k(ranking.similarities, self.P)]
            gamma = kernel_gamma(
                self.gamma,
                query_list.query,
                query_list.gallery,
                query_list.sample_rows(WIDTH_SAMPLE),
                SHARPNESS,
            )
            training_sets = TrainingSets.around_query(
                query_list.query, query_list.gallery, positives, negatives, gamma, with_query=True
            )
            expansion = training_sets.train(slice(None), self.C, ()).sum()
            rows, sums = query_list.add_expansion(expansion, scores, TIE)
            return rows, ProbabilityScores(sums, notes=notes)
