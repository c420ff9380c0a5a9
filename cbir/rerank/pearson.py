"""Similarity update by Pearson's correlation of ranking lists (Huang et al. 2012, section 2.2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cbir.gallery.gallery import Gallery, RankingList, top_k
from cbir.gallery.vector_blocks import Doubles, Floats, Rows
from cbir.rerank.reranker import Grid, Reranked, Reranker, parameter
from cbir.system.threads import OneBlasThread, checkpoint

NARROW = (
    1e-6  # lists whose spread is a smaller share of their sum of squares are centred before they are squared
)
Weigher = Callable[[Rows], Doubles]
BLOCK = 100  # images whose lists are computed at a time
ROUNDING = 1e-13  # of the squared norms: squared distances, and spreads of them, below this count as 0


class References:
    """The N images nearest to the query, over which ranking lists are compared.

    Distances stand for similarities: Pearson's coefficient is the same for s = a - b d, b > 0.

    Parameters
    ----------
    query : (d,) or (s, d) float32
        Query vector, or those of several examples.
    ranking : RankingList
        List that contains the N nearest images.
    gallery : Gallery
        Vectors of the collection.
    N : int
        Number of reference images.
    """

    def __init__(self, query: Floats, ranking: RankingList, gallery: Gallery, N: int) -> None:
        queries = np.atleast_2d(query).astype(np.float64)
        self.query = queries.mean(axis=0)
        # Relative to the query, near these images: no cancellation when squares are subtracted.
        self.vectors = gallery.vectors(ranking.rows[top_k(ranking.similarities, N)]) - self.query
        self.squared_norms = np.einsum("ij,ij->i", self.vectors, self.vectors)
        self.lists = _standardised(np.sqrt(self._squared_distances(queries)[0])).T

    def correlations(self, images: Floats) -> Doubles:
        """Return rho (k,) in [-1, 1] of `images` (k, d): Huang et al. 2012, eq. 2; 0 for a constant list.

        With several queries: the largest coefficient, that with the query whose list is the most alike.
        """
        squared, total = self._squared_distances(images)
        lists = np.sqrt(squared, out=squared)
        spread = total - lists.sum(axis=1) ** 2 / max(len(self.lists), 1)
        products = lists @ self.lists  # which have mean 0
        narrow = spread <= NARROW * total
        rho = products / np.sqrt(np.where(narrow, 1.0, spread))[:, None]
        rho[narrow] = _standardised(lists[narrow]) @ self.lists
        return np.asarray(np.clip(rho.max(axis=1), -1.0, 1.0))

    def _squared_distances(self, images: Floats | Doubles) -> tuple[Doubles, Doubles]:
        """Return the squared distances (k, N) of `images` (k, d) to the reference images, and their sums (k,)."""
        differences = images - self.query
        norms = np.einsum("ij,ij->i", differences, differences)[:, None] + self.squared_norms
        squared = differences @ self.vectors.T
        squared *= -2.0
        squared += norms
        norms *= ROUNDING
        np.copyto(squared, 0.0, where=squared < norms)
        return squared, squared.sum(axis=1)


def _standardised(lists: Doubles) -> Doubles:
    """Scale lists (k, N) to mean 0 and length 1; constant ones become 0."""
    if lists.shape[1] == 0:
        return lists
    centred: Doubles = lists - lists.mean(axis=1, keepdims=True)
    length = np.sqrt(np.einsum("ij,ij->i", centred, centred))[:, None]
    largest = lists.max(axis=1, keepdims=True)
    constant = largest - lists.min(axis=1, keepdims=True) <= np.sqrt(ROUNDING) * largest
    length[constant] = 1.0
    centred /= length
    centred[constant[:, 0]] = 0.0
    return centred


def update_similarities(
    ranking: RankingList,
    references: References,
    gallery: Gallery,
    K: int,
    lam: float,
    weigh: Weigher | None = None,
) -> Floats:
    """Add lambda rho to the similarities of the K best images (Huang et al. 2012, eq. 3).

    With `weigh`, which is not in the paper, lambda (1 + rho) times the evidence for an image is added instead, so
    that one that nothing speaks for stays where it is.

    Parameters
    ----------
    ranking : RankingList
        List of m images that contains the K best.
    references : References
        Images over which ranking lists are compared.
    gallery : Gallery
        Vectors of the collection.
    K : int
        Number of images to update.
    lam : float
        lambda, the weight of rho.
    weigh : callable, optional
        Returns the evidence for images in gallery rows of the list, from 0 to 1.

    Returns
    -------
    (m,) float32
        Updated similarities.
    """
    updated = ranking.similarities.copy()
    top = top_k(updated, K)
    for start in range(0, len(top), BLOCK):
        checkpoint()
        part = top[start : start + BLOCK]
        rho = references.correlations(gallery.vectors(ranking.rows[part]))
        gain = rho if weigh is None else weigh(ranking.rows[part]) * (1.0 + rho)
        updated[part] += (lam * gain).astype(np.float32)
    return updated


@dataclass(frozen=True, kw_only=True)
class Pearson(Reranker):
    """The similarity update of EPRF alone."""

    name = "pearson"
    title = "Neighbours"
    description = "Moves up those of the nearest images that have the same neighbours as the query."
    paper: ClassVar[Mapping[str, float | str]] = {"K": 60, "N": 1000, "lam": 1.0}
    grid: ClassVar[Grid] = {"K": (20, 60, 200), "lam": (0.1, 0.3, 1.0)}

    K: int = parameter(60, 1, 1000, "images whose similarity is updated")
    N: int = parameter(1000, 1, 10_000, "images that a ranking list is compared over")
    lam: float = parameter(1.0, 0, 1000, "weight of the correlation")

    @property
    def depth(self) -> int:
        return max(self.N, self.K)

    def __call__(self, query: Floats, ranking: RankingList, gallery: Gallery) -> Reranked:
        with OneBlasThread():
            references = References(query, ranking, gallery, self.N)
            return Reranked(update_similarities(ranking, references, gallery, self.K, self.lam), scope="top")
