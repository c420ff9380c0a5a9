"""The best images of a re-ranked list."""

from dataclasses import dataclass, replace

import numpy as np

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList, top_k
from cbir.gallery.vector_blocks import Floats, Rows, Scores, is_among
from cbir.rerank.backend import Backend
from cbir.rerank.reranker import Reranked, Reranker


@dataclass(frozen=True, eq=False)
class TopHits:
    """The k best images, best first.

    Attributes
    ----------
    rows : (k,) int64
        Rows of the gallery.
    scores : (k,) floating
        Scores that they are ordered by.
    distances : (k,) float32
        Euclidean distances to the query.
    reranked : Reranked
        The re-ranked list, with its scope and notes.
    """

    rows: Rows
    scores: Scores
    distances: Floats
    reranked: Reranked

    @property
    def reported(self) -> Scores:
        """Scores as answers report them."""
        return self.reranked.reported(self.scores)

    def among(self, rows: Rows, k: int) -> "TopHits":
        """Return the k best of those that are in ascending `rows`."""
        kept = np.flatnonzero(is_among(self.rows, rows))[:k]
        return replace(self, rows=self.rows[kept], scores=self.scores[kept], distances=self.distances[kept])

    def with_note(self, note: str) -> "TopHits":
        """Return the hits with `note` for the user."""
        return replace(self, reranked=replace(self.reranked, notes=(*self.reranked.notes, note)))


def select_hits(ranking: RankingList, reranked: Reranked, k: int) -> TopHits:
    """Select the best images of a re-ranked list.

    Parameters
    ----------
    ranking : RankingList
        List of m images.
    reranked : Reranked
        Their new scores.
    k : int
        Number of hits; fewer where the list is shorter.
    """
    top = top_k(reranked.scores, k)
    return TopHits(ranking.rows[top], reranked.scores[top], ranking.distances[top], reranked)


def rerank_top(reranker: Reranker, query: Floats, ranking: RankingList, gallery: Gallery, k: int) -> TopHits:
    """Re-rank a list and select its best images.

    Parameters
    ----------
    reranker : Reranker
        Method that orders the list.
    query : (d,) float32
        Normalised query vector.
    ranking : RankingList
        List of m images.
    gallery : Gallery
        Vectors of the collection.
    k : int
        Number of hits; fewer where the list is shorter.
    """
    rows, reranked = reranker.rerank(Backend(query, ranking, gallery, k))
    top = top_k(reranked.scores, k)
    distances = ranking.distances[np.searchsorted(ranking.rows, rows[top])]
    return TopHits(rows[top], reranked.scores[top], distances, reranked)
