"""Negative pseudo-relevance feedback, NPRF-RR (Yan, Hauptmann & Jin 2003)."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList, best
from cbir.rerank import negatives
from cbir.rerank.base import Reranked
from cbir.rerank.ensemble import Examples
from cbir.rerank.eprf import LIMITS, TIE, Relevance
from cbir.rerank.parameters import real, whole
from cbir.threads import OneBlasThread


@dataclass(frozen=True, kw_only=True)
class NegativeFeedback:
    """SVMs that tell the query from images far down the list rank the whole collection.

    R. Yan, A. Hauptmann, R. Jin: Multimedia search with pseudo-relevance feedback, CIVR 2003. Positives are the
    query and, as Huang et al. 2012 (section 3) do for queries of a single image, the P best images of the list; P = 0
    is the query alone. Each of T machines has its own negatives, as many as positives, drawn from the
    end of the list. The score of x is the sum of decision values f_1(x) + ... + f_T(x).

    T: machines. lowest: share of the list that negatives come from. C: penalty. gamma: of the kernel
    exp(-gamma / d |x - v|^2), d dimensions. seed: of the draw.
    """

    name: ClassVar[str] = "nprf"

    P: int = 6
    T: int = 10
    lowest: float = 0.10
    C: float = 1.0
    gamma: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "P", whole("P", self.P, 0, 100))
        object.__setattr__(self, "T", whole("T", self.T, 1, 100))
        object.__setattr__(self, "seed", whole("seed", self.seed, 0, 2**32 - 1))
        for name in ("lowest", "C", "gamma"):
            object.__setattr__(self, name, real(name, getattr(self, name), *LIMITS[name]))

    @property
    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def __call__(self, query: NDArray[np.float32], ranking: RankingList, gallery: Gallery) -> Reranked:
        with OneBlasThread():
            return self._rerank(query, ranking, gallery)

    def _rerank(self, query: NDArray[np.float32], ranking: RankingList, gallery: Gallery) -> Reranked:
        scores = ranking.similarities
        wanted = self.P + 1
        drawn = negatives.draw(query, scores, P=wanted, sets=self.T, lowest=self.lowest, seed=self.seed)
        count = drawn.shape[1]
        if count == 0:
            note = f"{len(ranking)} images leave none to learn from as irrelevant: not re-ranked by machines"
            return Reranked(scores, notes=(note,))
        positives = best(scores, self.P)
        gamma = self.gamma / gallery.dimensions
        examples = Examples(positives, drawn, query, ranking, gallery, gamma, with_query=True)
        expansion = examples.train(slice(None), self.C, np.ones(len(positives) + 1)).sum()
        sums = expansion.values(gallery, ranking.rows).astype(np.float64)
        fewer = f"{count} negatives a machine instead of {wanted}: there are no more images"
        return Relevance(sums + TIE * scores, notes=() if count == wanted else (fewer,))
