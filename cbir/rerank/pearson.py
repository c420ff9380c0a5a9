"""Similarity update: images whose own ranking lists run like the query's move up (Huang et al. 2012, 2.2)."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList, best
from cbir.rerank.base import Reranked
from cbir.rerank.parameters import real, whole
from cbir.threads import OneBlasThread

ROUNDING = 1e-13  # of the squared norms: smaller squared distances, and spreads of them, are none


class References:
    """The N images nearest to the query, over which ranking lists are compared.

    Distances stand for similarities: Pearson's coefficient is the same for s = a - b d, b > 0.
    """

    def __init__(self, query: NDArray[np.float32], ranking: RankingList, gallery: Gallery, N: int) -> None:
        self.query = query.astype(np.float64)
        # Relative to the query, where these images are: nothing is lost when squares are subtracted.
        self.vectors = gallery.vectors(ranking.rows[best(ranking.similarities, N)]) - self.query
        self.squared_norms = np.einsum("ij,ij->i", self.vectors, self.vectors)
        self.list = _standardised(np.sqrt(self.squared_norms)[None, :])[0]

    def correlations(self, images: NDArray[np.float32]) -> NDArray[np.float64]:
        """rho (k,) in [-1, 1] of images (k, d): Huang et al. 2012, eq. 2; 0 where a list is constant."""
        near = images - self.query
        norms = np.einsum("ij,ij->i", near, near)[:, None] + self.squared_norms
        squared = norms - 2.0 * (near @ self.vectors.T)
        squared[squared < ROUNDING * norms] = 0.0
        return np.clip(_standardised(np.sqrt(squared)) @ self.list, -1.0, 1.0)


def _standardised(lists: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lists (k, N) with mean 0 and length 1, or all 0 where they are constant."""
    if lists.shape[1] == 0:
        return lists
    centred = lists - lists.mean(axis=1, keepdims=True)
    length = np.sqrt(np.einsum("ij,ij->i", centred, centred))[:, None]
    constant = np.ptp(lists, axis=1, keepdims=True) <= np.sqrt(ROUNDING) * lists.max(axis=1, keepdims=True)
    return np.divide(centred, length, out=np.zeros_like(lists), where=~constant)


def update(
    ranking: RankingList, references: References, gallery: Gallery, K: int, lam: float
) -> NDArray[np.float32]:
    """Similarities with lambda rho added for the K best images (Huang et al. 2012, eq. 3)."""
    updated = ranking.similarities.copy()
    places = best(updated, K)
    rho = references.correlations(gallery.vectors(ranking.rows[places]))
    updated[places] += (lam * rho).astype(np.float32)
    return updated


@dataclass(frozen=True, kw_only=True)
class Pearson:
    """The similarity update alone.

    K: images whose similarity is updated. N: images a ranking list is compared over. lam: weight of rho.
    """

    name: ClassVar[str] = "pearson"

    K: int = 60
    N: int = 1000
    lam: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "K", whole("K", self.K, 1, 1000))
        object.__setattr__(self, "N", whole("N", self.N, 1, 10_000))
        object.__setattr__(self, "lam", real("lam", self.lam, 0.0, 1000.0))

    @property
    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def __call__(self, query: NDArray[np.float32], ranking: RankingList, gallery: Gallery) -> Reranked:
        with OneBlasThread():
            references = References(query, ranking, gallery, self.N)
            return Reranked(update(ranking, references, gallery, self.K, self.lam), scope="top")
