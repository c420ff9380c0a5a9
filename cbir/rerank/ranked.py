"""The best images for a query, and how they were ranked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList, top_k
from cbir.gallery.vector_blocks import Floats, Rows, Scores, is_among
from cbir.rerank.auto import AgreementBlocks
from cbir.rerank.backend import Backend
from cbir.rerank.reranker import Reranked, Reranker

Box = tuple[float, float, float, float]  # left, top, width and height, as shares of the sides of an image


class Method(Protocol):
    """A method that ranks: a re-ranker, or one that learns from several examples."""

    @property
    def name(self) -> str:
        """Name of the method, as users type it."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Values of its parameters by name."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """The k best images for a query, best first, without their records.

    Attributes
    ----------
    numbers : (k,) int64
        The collection's numbers of the images, of a gallery in memory its ids.
    scores : (k,) floating
        Scores that they are ordered by, falling.
    reported : (k,) floating
        Scores that answers report.
    distances : (k,) float32
        Euclidean distances to the query.
    method : str
        Name of the method.
    parameters : dict
        Values of its parameters.
    scope : str
        What was re-ranked: "collection", "top", or a description of candidates.
    notes : tuple of str
        Messages for the user, such as too few images to train on.
    reason : str
        Why `auto` chose the method; empty for one that the request names.
    index : str
        Index that found the nearest images; empty for none.
    likeness : float or None
        How like the searched images the query is, see `NearestDistances.likeness`.
    agreement : mapping of str to AgreementBlocks
        By label key, how often such answers agree rightly.
    matches : mapping of int to Box
        By number, the place that is most like the region of a search for one.
    """

    numbers: NDArray[np.int64]
    scores: Scores
    reported: Scores
    distances: Floats
    method: str
    parameters: dict[str, Any]
    scope: str = "collection"
    notes: tuple[str, ...] = ()
    reason: str = ""
    index: str = ""
    likeness: float | None = None
    agreement: Mapping[str, AgreementBlocks] = field(default_factory=dict)
    matches: Mapping[int, Box] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, positions: NDArray[np.int64]) -> Self:
        """Return the images at `positions` (j,), in that order."""
        arrays = {
            name: getattr(self, name)[positions] for name in ("numbers", "scores", "reported", "distances")
        }
        return replace(self, **arrays)

    def with_notes(self, *notes: str) -> Self:
        """Return the same images with further notes for the user."""
        return replace(self, notes=(*self.notes, *notes))


def rerank_top(
    reranker: Reranker,
    query: Floats,
    ranking: RankingList,
    gallery: Gallery,
    k: int,
    hits: Rows | None = None,
) -> Ranked:
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
        Number of images to select; fewer where the list is shorter.
    hits : (h,) int64, optional
        Rows that may be selected, ascending; all by default.
    """
    rows, reranked = reranker.rerank(Backend(query, ranking, gallery, k if hits is None else len(ranking)))
    return select_top(reranker, (rows, reranked), ranking, gallery, k, hits)


def select_top(
    method: Method,
    scored: tuple[Rows, Reranked],
    ranking: RankingList,
    gallery: Gallery,
    k: int,
    hits: Rows | None = None,
) -> Ranked:
    """Select the best images of a re-ranked list.

    Parameters
    ----------
    method : Method
        Method that scored the list.
    scored : tuple of (r,) int64 and Reranked
        Rows of the gallery, ascending, and their scores: those of the whole list, or the best among them.
    ranking, gallery, k, hits
        As of `rerank_top`.
    """
    rows, reranked = scored
    top = top_k(reranked.scores, k if hits is None else len(ranking))
    if hits is not None:
        top = top[np.flatnonzero(is_among(rows[top], hits))[:k]]
    scores, best = reranked.scores[top], rows[top]
    return Ranked(
        gallery.ids[best],
        scores,
        reranked.reported(scores),
        ranking.distances[np.searchsorted(ranking.rows, best)],
        method.name,
        method.parameters,
        reranked.scope,
        reranked.notes,
    )
