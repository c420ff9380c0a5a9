"""The best images for a query, and how they were ranked; also for vectors without a collection."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.gallery.gallery import Gallery, RankingList, rank, similarities, top_k
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import Neighbourhood
from cbir.gallery.vector_blocks import Floats, Rows, Scores, euclidean_space, is_among
from cbir.rerank import default_choice
from cbir.rerank.answer_evidence import EvidenceByKey
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.query_list import QueryList
from cbir.rerank.reranker import Reranked, Reranker

Box = tuple[float, float, float, float]  # left, top, width and height, as shares of the sides of an image
LARGEST_SQUARE = (
    float(np.finfo(np.float32).max) / 4
)  # of a length, so that squared distances are finite in float32
LEAST_VALUE = 1e-15  # of a gallery; squared differences of smaller values are 0 in float32


class RankingMethod(Protocol):
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
    evidence : mapping of str to Evidence
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
    evidence: EvidenceByKey = field(default_factory=dict)
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
    rows, reranked = reranker.rerank(QueryList(query, ranking, gallery, k if hits is None else len(ranking)))
    return select_top(reranker, (rows, reranked), ranking, gallery, k, hits)


def select_top(
    method: RankingMethod,
    scored: tuple[Rows, Reranked],
    ranking: RankingList,
    gallery: Gallery,
    k: int,
    hits: Rows | None = None,
    judged: Rows | None = None,
) -> Ranked:
    """Select the best images of a re-ranked list, those with equal vectors side by side.

    A copy that may not be selected lends its score to none.

    Parameters
    ----------
    method : RankingMethod
        Method that scored the list.
    scored : tuple of (r,) int64 and Reranked
        Rows of the gallery, ascending, and their scores: those of the whole list, or the best among them.
    ranking, gallery, k, hits
        As of `rerank_top`.
    judged : (j,) int64, optional
        Rows that a person has judged: they keep their scores, unlike their copies.
    """
    rows, reranked = scored
    scores = reranked.scores
    if hits is not None:
        hit = is_among(rows, hits)
        rows, scores = rows[hit], scores[hit]
    distances = ranking.distances[np.searchsorted(ranking.rows, rows)]
    free = np.ones(len(rows), bool) if judged is None else ~np.isin(rows, judged)
    top, scores = order_with_copies(scores, rows, np.where(free, distances, np.nan), gallery, k)
    return Ranked(
        gallery.ids[rows[top]],
        scores,
        reranked.reported(scores),
        distances[top],
        method.name,
        method.parameters,
        reranked.scope,
        reranked.notes,
    )


def order_with_copies(
    scores: Scores, rows: Rows, distances: Floats, gallery: Gallery, k: int
) -> tuple[Rows, Scores]:
    """Return the k best places and their scores, images with equal vectors side by side.

    They would have equal scores but for rounding and, in a k-NN graph, for which copies are among whose nearest. All
    get the best of theirs.

    Parameters
    ----------
    scores : (r,) floating
        Larger is better; on a tie the earlier row comes first.
    rows : (r,) int64
        Rows of the gallery, ascending.
    distances : (r,) float32
        Their distances to the query: equal ones of copies. NaN for an image that is not put beside its copies.
    gallery : Gallery
        Vectors of the collection.
    k : int
        Number of places.

    Returns
    -------
    places : (min(k, r),) int64
    scores : (min(k, r),) floating
    """
    top = top_k(scores, k)
    of_top = distances[top]
    nearest, farthest = np.fmin.reduce(of_top, initial=np.inf), np.fmax.reduce(of_top, initial=-np.inf)
    # Few of many are within these bounds; to look up each of all takes long
    alike = np.flatnonzero((distances >= nearest) & (distances <= farthest))
    alike = alike[np.isin(distances[alike], of_top)]
    if len(alike) > 1:
        _, group, size = np.unique(distances[alike], return_inverse=True, return_counts=True)
        alike = alike[size[group] > 1]
    if len(alike) < 2:
        return top, scores[top]
    vectors = gallery.vectors(rows[alike]) + np.float32(0.0)  # -0 has other bytes than 0
    contents = vectors.view(f"V{vectors.itemsize * vectors.shape[1]}")[:, 0]
    _, first, group = np.unique(contents, return_index=True, return_inverse=True)
    best = np.full(len(first), -np.inf)
    np.maximum.at(best, group, scores[alike])
    raised, leader = scores.astype(np.float64), np.arange(len(scores))
    raised[alike], leader[alike] = best[group], alike[first[group]]
    reached = np.flatnonzero(raised >= raised[top_k(raised, k)].min())
    order = np.lexsort((leader[reached], -raised[reached]))  # others of the same score do not come between
    top = reached[order[:k]]
    return top, raised[top]


class RerankedVectors(NamedTuple):
    """Ranking of a gallery for q queries, best first; (k,) for a single query vector.

    indices: (q, k) int64, rows of the gallery. scores: (q, k) float64, larger is better. distances: (q, k) float32,
    Euclidean.
    """

    indices: NDArray[np.int64]
    scores: NDArray[np.float64]
    distances: Floats


def rerank_vectors(
    query_vectors: ArrayLike,
    gallery_vectors: ArrayLike,
    method: str = "auto",
    *,
    k: int | None = None,
    **parameters: Any,
) -> RerankedVectors:
    """Rank a gallery of vectors for each query, and re-rank it; `cbir.rerank(...)` is a call of this function.

    Vectors are compared by their Euclidean distance as they are. Standardise columns of different units first, and
    scale the vectors of a network to length 1.

    Parameters
    ----------
    query_vectors : (q, d) or (d,) array_like
        Finite numbers, converted to float32.
    gallery_vectors : (n, d) array_like
        Finite numbers, converted to float32.
    method : str
        "auto", or a re-ranker (`cbir.rerank.names()`): "none" (the order of the distances), "diffusion", "pearson",
        "eprf", "nsu-eprf", "svm-eprf", "fuzzy-eprf", "diffusion-eprf", "pc", "nprf", "k-reciprocal" or "aqe".
    k : int, optional
        Results of each query, at least 1; all n by default.
    **parameters
        Parameters of the method in place of its defaults, as in docs/rerank.md.

    Returns
    -------
    RerankedVectors
        Rows, scores and distances, best first; equal scores in the order of the rows.

    Raises
    ------
    InvalidInput
        For other shapes, values that are not finite or all tiny, and an unknown method or parameter.

    Examples
    --------
    >>> cbir.rerank([[0.0]], [[3.0], [1.0]], "none").indices
    array([[1, 0]])
    """
    queries, vectors = _matrix(query_vectors, "query_vectors"), _matrix(gallery_vectors, "gallery_vectors")
    if vectors.ndim != 2:
        raise InvalidInput(f"gallery_vectors has shape {vectors.shape}; give a row for each image: (n, d)")
    if 0.0 < np.abs(vectors).max(initial=0.0) < LEAST_VALUE:
        raise InvalidInput(
            f"gallery_vectors has only values below {LEAST_VALUE}; multiply all vectors by a number"
        )
    if queries.shape[-1] != vectors.shape[1]:
        raise InvalidInput(
            f"query_vectors has {queries.shape[-1]} columns and gallery_vectors {vectors.shape[1]}; "
            "both must come from one descriptor"
        )
    count = len(vectors) if k is None else k
    if k is not None and (not isinstance(k, Integral) or isinstance(k, bool) or k < 1):
        raise InvalidInput(f"k: a whole number, at least 1, not {k!r}")
    reranker = _make_reranker(method, parameters)
    gallery = _make_gallery(vectors, reranker)
    rows = [
        rerank_top(reranker, query, _rank(query, gallery), gallery, count) for query in np.atleast_2d(queries)
    ]
    shape = (len(rows), min(count, len(vectors)))
    ranking = RerankedVectors(
        np.array([hits.numbers for hits in rows], np.int64).reshape(shape),
        np.array([hits.reported for hits in rows], np.float64).reshape(shape),
        np.array([hits.distances for hits in rows], np.float32).reshape(shape),
    )
    return ranking if queries.ndim == 2 else RerankedVectors(*(values[0] for values in ranking))


def _matrix(values: ArrayLike, name: str) -> Floats:
    if np.ma.is_masked(values):
        raise InvalidInput(f"{name} has masked values; fill them, or leave their rows out")
    try:
        if np.asarray(values).dtype.kind in "cmM":  # complex numbers, times
            raise TypeError
        with np.errstate(over="ignore"):  # too large for float32: infinite, and refused below
            matrix = np.ascontiguousarray(values, np.float32)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be an array of numbers with equally long rows") from None
    if matrix.ndim not in (1, 2):
        raise InvalidInput(f"{name} has shape {matrix.shape}; give (rows, d)")
    if not matrix.shape[-1]:
        raise InvalidInput(
            f"{name} has shape {matrix.shape}: vectors without values; give at least one column"
        )
    squares = np.einsum("...i,...i->...", matrix, matrix, dtype=np.float64)
    if not (squares <= LARGEST_SQUARE).all():  # NaN too
        raise InvalidInput(f"{name} has values that are not finite, or too large for float32")
    return matrix


def _make_reranker(method: str, parameters: dict[str, Any]) -> Reranker:
    if method == "auto" and not parameters:
        choice = default_choice("")
        method, parameters = choice.method, dict(choice.parameters)
    return rerank.get(method, **parameters)


def _rank(query: Floats, gallery: Gallery) -> RankingList:
    """Rank the gallery; in single precision, one far vector would make the similarities of the others equal."""
    ranking = rank(query, gallery)
    return replace(ranking, similarities=similarities(ranking.distances.astype(np.float64)))


def _make_gallery(vectors: Floats, reranker: Reranker) -> Gallery:
    """Return the gallery, with the k-NN graph that collections have where it is used."""
    neighbourhood, space = None, None
    if isinstance(reranker, Diffusion) and len(vectors):
        space = euclidean_space(vectors)
        if len(vectors) > reranker.local:
            neighbourhood = Neighbourhood(find_neighbours(vectors, space))
    return Gallery(
        (vectors,), np.arange(len(vectors)), neighbourhood=neighbourhood, projected=True, fitted_space=space
    )
