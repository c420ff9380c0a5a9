"""EPRF with the list, examples and memberships of diffusion."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from cbir.gallery.gallery import top_k
from cbir.gallery.vector_blocks import Doubles, Rows
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.eprf import FUZZY_SVM_GRID, LEAST_MEMBERSHIP, Eprf, FuzzyEprf
from cbir.rerank.kernel_expansion import WIDTH_SAMPLE, KernelExpansion, kernel_gamma
from cbir.rerank.pearson import References
from cbir.rerank.query_list import QueryList
from cbir.rerank.reranker import AUTO, Grid, Reranked, parameter, with_default
from cbir.rerank.svm_ensemble import NeighbourLikeness, TrainingSets, negative_notes
from cbir.system.threads import OneBlasThread

LOWEST = 0.9  # share of the list that negatives come from
NEGATIVES = 10  # of an SVM
LEAST_SHARE = 3  # one in so many images of a list is a positive at most
RAISED = 2.0  # similarity of positives, above all others: the P best are not drawn
LEAST_MARGIN = 1e-6  # between positives and negatives; below, SVMs separate nothing


@dataclass(frozen=True, kw_only=True)
class DiffusionEprf(Diffusion):
    """Steps of EPRF-RR (Huang et al. 2012) on the list of `Diffusion`: Pearson update, then fuzzy SVMs.

    Similarities of eq. 3 are the logarithms of the flow. The query is a certain positive. Those of the list count by
    the evidence for them: the membership is the flow as a share of the largest, times `NeighbourLikeness`. In a small
    class few of the P count. The mean decision of the SVMs, 0 for negatives and 1 for the query, is added to the
    logarithm of the M best images.
    """

    name = "diffusion-eprf"
    title = "Neighbours, then EPRF"
    description = (
        "Lets relevance flow from the query through the collection, then learns what sets the images that it "
        "reaches first apart."
    )
    reads_tail = True
    svm_grid: ClassVar[Grid] = FUZZY_SVM_GRID
    sharpness: ClassVar[float] = FuzzyEprf.sharpness
    paper: ClassVar[Mapping[str, float | str]] = {}  # its values are ours

    damping: float = with_default(Diffusion, "damping", 0.97)
    tail: float = with_default(Diffusion, "tail", 1.0)
    mutual: float = with_default(Diffusion, "mutual", 4.0)
    sure: float = with_default(Diffusion, "sure", 1.0)
    K: int = parameter(100, 0, 1000, "images whose score is updated")
    N: int = with_default(Eprf, "N", 100)
    lam: float = with_default(Eprf, "lam", 0.3)
    P: int = parameter(5, 1, 100, "images that are positive examples as far as there is evidence for them")
    T: int = parameter(2, 1, 100, "SVMs")
    M: int = parameter(500, 1, 10_000, "best images that the SVMs score")
    C: float = with_default(Eprf, "C", 0.1)
    gamma: float | str = with_default(Eprf, "gamma", AUTO)
    weight: float = parameter(3.0, 0, 1000, "weight of the SVMs beside the logarithm of the flow")
    evidence: float = parameter(1.0, 0, 100, "power of the likeness in memberships; 0: the flow alone")
    seed: int = with_default(Eprf, "seed", 0)

    @property
    def depth(self) -> None:
        """The full list: M is the number of images that the SVMs score."""
        return

    @classmethod
    def tuned_names(cls) -> tuple[str, ...]:
        return ()

    def diffuse(self, query_list: QueryList) -> tuple[Rows, Reranked]:
        rows, flowed = super().diffuse(query_list)
        with OneBlasThread():
            scores = flowed.scores.astype(np.float64)
            references = References(query_list.query, query_list.ranking, query_list.gallery, self.N)
            nearest = top_k(scores, self.K)
            rho = references.correlations(query_list.gallery.vectors(rows[nearest]))
            scores[nearest] += self.lam * (1.0 + rho)  # of the others rho counts as -1: they stay behind
            positives = top_k(scores, min(self.P, len(scores) // LEAST_SHARE))
            negatives = self._draw(query_list, rows[positives])
            notes = negative_notes(len(query_list), negatives, NEGATIVES)
            if negatives.shape[1]:
                best = np.sort(top_k(scores, self.M))
                decisions = self._decisions(query_list, rows, scores, positives, negatives, best)
                scores[best] += self.weight * decisions
            return rows, replace(flowed, scores=scores - scores.max(initial=-np.inf), notes=notes)

    def _draw(self, query_list: QueryList, positives: Rows) -> Rows:
        """Return negatives (T, q) from the end of the plain list, none of them a positive."""
        listed = query_list.with_scores(np.sort(positives), np.full(len(positives), RAISED, np.float32))
        lowest = min(LOWEST, 1.0 - len(positives) / max(len(query_list.ranking.evenly), 1))
        return query_list.draw_negatives(listed, P=NEGATIVES, sets=self.T, lowest=lowest, seed=self.seed)

    def memberships(self, query_list: QueryList, positives: Rows, scores: Doubles) -> Doubles:
        """Return the memberships (p,) in [0.01, 1] of positives: gallery rows, best first, with their scores."""
        shares = np.exp(scores - scores[:1])
        if self.evidence:
            shares *= NeighbourLikeness(query_list)(positives) ** self.evidence
        return np.asarray(np.maximum(shares, LEAST_MEMBERSHIP))

    def _decisions(
        self, query_list: QueryList, rows: Rows, scores: Doubles, positives: Rows, negatives: Rows, best: Rows
    ) -> Doubles:
        """Return mean decisions (b,) at the positions `best`, scaled: 0 for negatives, 1 for the query."""
        gallery, query = query_list.gallery, query_list.query
        memberships = self.memberships(query_list, rows[positives], scores[positives])
        gamma = kernel_gamma(self.gamma, query, gallery, query_list.sample_rows(WIDTH_SAMPLE), self.sharpness)
        training_sets = TrainingSets.around_query(
            query, gallery, rows[positives], negatives, gamma, with_query=True
        )
        expansion: KernelExpansion = training_sets.train(slice(None), self.C, [*memberships, 1.0]).sum()
        low = expansion.exact_values(gallery.vectors(negatives.ravel())).mean()
        high = float(expansion.exact_values(query[None])[0])
        if high - low <= LEAST_MARGIN:
            return np.zeros(len(best))
        values = expansion.exact_values(gallery.vectors(rows[best]))
        return np.asarray(np.maximum((values - low) / (high - low), 0.0).astype(np.float32), np.float64)
