"""Negative pseudo-relevance feedback, NPRF-RR (Yan, Hauptmann & Jin 2003)."""

from dataclasses import dataclass
from typing import ClassVar

from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import Rows
from cbir.rerank.backend import Backend
from cbir.rerank.eprf import FINE_SVM_GRID, SHARPNESS, SVM_GRID, ProbabilityScores, negative_notes
from cbir.rerank.kernel_expansion import WIDTH_SAMPLE, kernel_gamma
from cbir.rerank.parameters import AUTO, parameter
from cbir.rerank.reranker import TIE, CollectionReranker, Grid, Reranked
from cbir.rerank.svm_ensemble import TrainingSets
from cbir.system.threads import OneBlasThread


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

    P: int = parameter(6, 0, 100, "images taken as positive examples beside the query")
    T: int = parameter(10, 1, 100, "SVMs")
    lowest: float = parameter(0.10, 0, 1, "share of the list that negatives come from")
    C: float = parameter(10.0, 1e-4, 1e4, "penalty")
    gamma: float | str = parameter(AUTO, 1e-6, 1e6, "of the kernel exp(-gamma / d |x - v|^2), d dimensions")
    seed: int = parameter(0, 0, 2**32 - 1, "seed of the draw of negatives")

    def rerank(self, backend: Backend) -> tuple[Rows, Reranked]:
        with OneBlasThread():
            ranking, count = backend.ranking, self.P + 1
            scores = backend.with_scores(ranking.rows, ranking.similarities)
            negatives = backend.draw_negatives(
                scores, P=count, sets=self.T, lowest=self.lowest, seed=self.seed
            )
            notes = negative_notes(len(backend), negatives, count)
            if not negatives.shape[1]:
                return ranking.rows, Reranked(ranking.similarities, notes=notes)
            positives = ranking.rows[top_k(ranking.similarities, self.P)]
            gamma = kernel_gamma(
                self.gamma, backend.query, backend.gallery, backend.sample_rows(WIDTH_SAMPLE), SHARPNESS
            )
            training_sets = TrainingSets.around_query(
                backend.query, backend.gallery, positives, negatives, gamma, with_query=True
            )
            expansion = training_sets.train(slice(None), self.C, ()).sum()
            rows, sums = backend.add_expansion(expansion, scores, TIE)
            return rows, ProbabilityScores(sums, notes=notes)
