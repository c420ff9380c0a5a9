"""EPRF whose list, examples and memberships come from diffusion."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import Doubles, Rows
from cbir.rerank.backend import Backend
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.eprf import LEAST_MEMBERSHIP, Eprf, negative_notes
from cbir.rerank.fuzzy_eprf import FUZZY_SVM_GRID, FuzzyEprf
from cbir.rerank.kernel_expansion import WIDTH_SAMPLE, KernelExpansion, kernel_gamma
from cbir.rerank.parameters import AUTO, parameter, with_default
from cbir.rerank.pearson import References
from cbir.rerank.reranker import Grid, Reranked
from cbir.rerank.svm_ensemble import TrainingSets
from cbir.system.threads import OneBlasThread

LOWEST = 0.9  # share of the list that negatives come from
RAISED = 2.0  # similarity of positives, above all others: the P best are not drawn
LEAST_MARGIN = 1e-6  # between positives and negatives; below, SVMs separate nothing


@dataclass(frozen=True, kw_only=True)
class DiffusionEprf(Diffusion):
    """Steps of EPRF-RR (Huang et al. 2012) on the list of `Diffusion`: Pearson update, then fuzzy SVMs.

    Similarities of eq. 3 are the logarithms of the flow. Memberships are the flow of the positives as a share of the
    largest: better calibrated than correlations, and penalties are small enough for them to act. The SVMs score
    the M best images: their mean decision, 0 for negatives and 1 for positives, is added to the logarithm.
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

    K: int = parameter(200, 0, 1000, "images whose score is updated")
    N: int = with_default(Eprf, "N", 100)
    lam: float = with_default(Eprf, "lam", 0.3)
    P: int = with_default(Eprf, "P", 10)
    T: int = parameter(3, 1, 100, "SVMs")
    M: int = parameter(1000, 1, 10_000, "best images that the SVMs score")
    C: float = with_default(Eprf, "C", 0.1)
    gamma: float | str = with_default(Eprf, "gamma", AUTO)
    weight: float = parameter(1.0, 0, 1000, "weight of the SVMs beside the logarithm of the flow")
    seed: int = with_default(Eprf, "seed", 0)

    @property
    def depth(self) -> None:
        """The full list: M is the number of images that the SVMs score."""
        return

    @classmethod
    def tuned_names(cls) -> tuple[str, ...]:
        return ()

    def diffuse(self, backend: Backend) -> tuple[Rows, Reranked]:
        rows, flowed = super().diffuse(backend)
        with OneBlasThread():
            scores = flowed.scores.astype(np.float64)
            references = References(backend.query, backend.ranking, backend.gallery, self.N)
            nearest = top_k(scores, self.K)
            rho = references.correlations(backend.gallery.vectors(rows[nearest]))
            scores[nearest] += self.lam * (1.0 + rho)  # of the others rho counts as -1: they stay behind
            positives = top_k(scores, self.P)
            listed = backend.with_scores(
                np.sort(rows[positives]), np.full(len(positives), RAISED, np.float32)
            )
            negatives = backend.draw_negatives(listed, P=self.P, sets=self.T, lowest=LOWEST, seed=self.seed)
            notes = negative_notes(len(backend), negatives, self.P)
            if negatives.shape[1]:
                best = np.sort(top_k(scores, self.M))
                decisions = self._decisions(backend, rows, scores, positives, negatives, best)
                scores[best] += self.weight * decisions
            return rows, replace(flowed, scores=scores - scores.max(initial=-np.inf), notes=notes)

    def _decisions(
        self, backend: Backend, rows: Rows, scores: Doubles, positives: Rows, negatives: Rows, best: Rows
    ) -> Doubles:
        """Return mean decisions (b,) at the positions `best`, scaled: 0 for negatives, 1 for positives."""
        gallery = backend.gallery
        memberships = np.maximum(np.exp(scores[positives] - scores[positives[0]]), LEAST_MEMBERSHIP)
        gamma = kernel_gamma(
            self.gamma, backend.query, gallery, backend.sample_rows(WIDTH_SAMPLE), self.sharpness
        )
        training_sets = TrainingSets.around_query(backend.query, gallery, rows[positives], negatives, gamma)
        expansion: KernelExpansion = training_sets.train(slice(None), self.C, memberships).sum()
        low = expansion.exact_values(gallery.vectors(negatives.ravel())).mean()
        high = np.average(expansion.exact_values(gallery.vectors(rows[positives])), weights=memberships)
        if high - low <= LEAST_MARGIN:
            return np.zeros(len(best))
        values = expansion.exact_values(gallery.vectors(rows[best]))
        return np.asarray(np.maximum((values - low) / (high - low), 0.0).astype(np.float32), np.float64)
