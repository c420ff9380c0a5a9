"""k-reciprocal encoding (Zhong et al. 2017): images move up that share their mutual neighbours with the query."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery, RankingList, top_k
from cbir.gallery.vector_blocks import Floats, Scores
from cbir.rerank.query_list import NEAREST, QueryList, pairwise_squared_distances, place_sure_first
from cbir.rerank.reranker import Grid, Reranked, Reranker, parameter, score_above_rest
from cbir.system.threads import checkpoint

Truths = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class KReciprocal(Reranker):
    """Jaccard distance between sets of mutual neighbours, for one query and its M best images.

    Z. Zhong, L. Zheng, D. Cao, S. Li: Re-ranking person re-identification with k-reciprocal encoding, CVPR 2017.
    Neighbours are searched for among the query and these images alone.
    d is the squared Euclidean distance over the image's largest one, as in the authors' program.

        R(i, k): images that have i among their k nearest and are among those of i (section 3.2)
        R*(i): R(i, k1) and every R(j, k1 / 2), j in R(i, k1), that has 2/3 of its images in R(i, k1) (3.2)
        V_i: exp(-d(i, j)) for j in R*(i), else 0, with sum 1 (3.3); then its mean over the k2 nearest (3.4)
        d_J = 1 - sum min(V_q, V_i) / sum max(V_q, V_i) (3.3)
        d* = (1 - lam) d_J + lam d(q, i) (3.5)

    An image is its own neighbour, beside the k1 others and as one of the k2; of equally distant ones those
    earlier in the list are nearer. The score is 1 + (1 - d*) for the M images, the similarity below.
    """

    name = "k-reciprocal"
    title = "Mutual neighbours"
    description = "Moves up those of the nearest images that are neighbours of the same images as the query."
    # The paper encodes all images; M is the most that there can be here.
    paper: ClassVar[Mapping[str, float | str]] = {"M": 1000, "k1": 20, "k2": 6, "lam": 0.3, "sure": 0.0}
    grid: ClassVar[Grid] = {"k1": (5, 10, 20, 40), "k2": (2, 4, 6), "lam": (0.1, 0.3)}

    M: int = parameter(500, 1, 1000, "images re-ranked; memory and time are O(M^2)")
    k1: int = parameter(20, 1, 100, "neighbours of an image")
    k2: int = parameter(6, 1, 100, "neighbours that an encoding is averaged over")
    lam: float = parameter(0.3, 0.0, 1.0, "share of the distance")
    sure: float = parameter(
        0.0, 0.0, 1.0, "the nearest image stays first if nearer than this share of the fifth's distance"
    )

    def __call__(self, query: Floats, ranking: RankingList, gallery: Gallery) -> Reranked:
        top = top_k(ranking.similarities, self.M)
        images = gallery.vectors(ranking.rows[top])
        squared = pairwise_squared_distances(images, query)
        closeness = mutual_closeness(squared, self.k1, self.k2, self.lam)
        scores = score_above_rest(ranking, top, closeness)
        query_list = QueryList(query, ranking, gallery)
        return Reranked(place_sure_first(query_list, ranking.rows, scores, self.sure)[1], scope="top")


def mutual_closeness(squared: Floats, k1: int, k2: int, lam: float) -> Floats:
    """Return 1 - d* of section 3.5 for the nearest images of a query.

    Parameters
    ----------
    squared : (m + 1, m + 1) float32
        Squared distances between the query, which comes first, and its m nearest images, nearest first.
    k1, k2, lam
        As in `KReciprocal`.

    Returns
    -------
    (m,) float32
        In [0, 1].
    """
    checkpoint()
    largest = squared.max(axis=1, keepdims=True)
    scaled = np.divide(squared, largest, out=np.zeros_like(squared), where=largest > 0.0)
    neighbours = nearest_neighbours(squared, max(k1 + 1, k2))
    checkpoint()
    encoded = encode_neighbours(scaled, neighbours, k1)
    nonzero = np.flatnonzero(encoded[neighbours[0, :k2]].any(axis=0))
    checkpoint()
    expanded = encoded[:, nonzero][neighbours[:, :k2]].mean(axis=1)
    shared = np.minimum(expanded, expanded[0]).sum(axis=1)
    jaccard = 1.0 - shared / (2.0 - shared)
    distance = (1.0 - lam) * jaccard + lam * scaled[0]
    return np.asarray(np.clip(1.0 - distance[1:], 0.0, 1.0), np.float32)


def nearest_neighbours(squared: Floats, count: int) -> NDArray[np.int64]:
    """Return neighbours (m, count) of each image, m at most: itself, then by distance and position."""
    m = len(squared)
    # Distances are not negative, so the order of their bits is theirs; the position below them orders equal ones.
    keys = (squared + np.float32(0.0)).view(np.int32).astype(np.int64)
    np.fill_diagonal(keys, -1)
    keys <<= 32
    keys |= np.arange(m)
    if count < m:
        keys = np.partition(keys, count - 1, axis=1)[:, :count]
    keys.sort(axis=1)
    return keys & 0xFFFFFFFF


def reciprocal(neighbours: NDArray[np.int64], k: int) -> Truths:
    """Return a mask (m, m) of pairs that are each among the k nearest of the other, and of equal ones."""
    near = np.zeros((len(neighbours), len(neighbours)), np.bool_)
    np.put_along_axis(near, neighbours[:, : k + 1], True, axis=1)
    return near & near.T


def encode_neighbours(scaled: Floats, neighbours: NDArray[np.int64], k1: int) -> Floats:
    """Encode images by their expanded reciprocal sets.

    Parameters
    ----------
    scaled : (m, m) float32
        Scaled distances d(i, j).
    neighbours : (m, n) int64
        Neighbours of each image, nearest first.
    k1 : int
        Size of the neighbourhoods.

    Returns
    -------
    (m, m) float32
        V, a row with sum 1 for each image.
    """
    from scipy.sparse import csr_array  # only now: it takes longer to import than a query

    wide = reciprocal(neighbours, k1)
    narrow = csr_array(reciprocal(neighbours, round(k1 / 2)), dtype=np.int32)
    # Sparse: a set has k1 + 1 images at most.
    shared = csr_array(wide, dtype=np.int32) @ narrow.T
    checkpoint()
    sizes = narrow.sum(axis=1)
    candidate = shared.multiply(wide).tocoo()
    large = 3 * candidate.data >= 2 * sizes[candidate.col]
    pairs = (candidate.row[large], candidate.col[large])
    accepted = csr_array((np.ones(len(pairs[0]), np.int32), pairs), shape=wide.shape)
    members = wide | ((accepted @ narrow).toarray() > 0)
    encoded: Floats = np.exp(-scaled) * members
    encoded /= encoded.sum(axis=1, keepdims=True)
    return encoded


def add_mutual_closeness(query_list: QueryList, scores: Scores, weight: float) -> Scores:
    """Add the closeness of k-reciprocal encoding (Zhong et al. 2017, section 3.5) to the nearest images' scores.

    Parameters
    ----------
    query_list : QueryList
        Ranking list of the query.
    scores : (m,) floating
        Scores of its rows, logarithms.
    weight : float
        Weight of the closeness, which is from 0 to 1.

    Returns
    -------
    (m,) floating
        Scores of which the largest is 0.
    """
    if not len(scores):
        return scores
    ranking = query_list.ranking
    nearest = top_k(ranking.similarities, NEAREST)
    defaults, scores = KReciprocal(), scores.copy()
    scores[nearest] += weight * mutual_closeness(
        query_list.near_squared, defaults.k1, defaults.k2, defaults.lam
    )
    return np.asarray(scores - scores.max())
