"""The best images of a re-ranked list, and re-rankers that look at the best places alone."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.gallery.gallery import Gallery, Rows
from cbir.gallery.ranking import RankingList, best
from cbir.rerank.base import Reranked, Reranker
from cbir.rerank.k_reciprocal import KReciprocal
from cbir.rerank.none import NoReranking
from cbir.rerank.pc import PostRetrievalClustering
from cbir.rerank.pearson import Pearson


class DoesNotFit(InvalidInput):
    """A collection is too large for the memory of a device."""


@dataclass(frozen=True, eq=False)
class Found:
    """The best images, best first: gallery rows (k,), scores (k,), Euclidean distances (k,) float32."""

    rows: Rows
    scores: NDArray[np.floating]
    distances: NDArray[np.float32]
    reranked: Reranked

    def told(self, note: str) -> "Found":
        """This with a note for the user."""
        return replace(self, reranked=replace(self.reranked, notes=(*self.reranked.notes, note)))


def looked_at(member: Reranker) -> int | None:
    """How many of the best places a re-ranker looks at, or may send down; None where it needs them all."""
    match member:
        case NoReranking():
            return 0
        case Pearson():
            return max(member.N, member.K)
        case PostRetrievalClustering() | KReciprocal():
            return member.M
    return None


def of_head(
    member: Reranker, query: NDArray[np.float32], head: RankingList, gallery: Gallery, k: int
) -> Found:
    """What a re-ranker of the best places finds in a list that is cut down to those it looks at, and k more."""
    reranked = member(query, head, gallery)
    places = best(reranked.scores, k)
    return Found(head.rows[places], reranked.scores[places], head.distances[places], reranked)
