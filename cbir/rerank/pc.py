"""Post-retrieval clustering, PC-RR (Park, Baek & Lee 2005): images move up with the cluster they belong to."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList, best
from cbir.rerank.base import Reranked
from cbir.rerank.parameters import real, whole
from cbir.rerank.top import above_the_rest


@dataclass(frozen=True, kw_only=True)
class PostRetrievalClustering:
    """The best M images are clustered, and those of clusters near the query move up.

    G. Park, Y. Baek, H.-K. Lee: Re-ranking algorithm using post-retrieval clustering for content-based image
    retrieval, Information Processing & Management 41 (2005) 177-194. Hierarchical agglomerative clustering,
    here with the mean distance between clusters (group average); then

        d'(q, i) = (1 - weight) d(q, i) + weight d(q, centre of the cluster of i).

    The score is 1 + (1 - d' / largest d') for the M images, the similarity below.

    M: images that are clustered; Huang et al. 2012 use 200. clusters: at most so many are formed.
    weight: of the cluster's distance against the image's own.
    """

    name: ClassVar[str] = "pc"

    M: int = 200
    clusters: int = 20
    weight: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "M", whole("M", self.M, 1, 1000))
        object.__setattr__(self, "clusters", whole("clusters", self.clusters, 1, 1000))
        object.__setattr__(self, "weight", real("weight", self.weight, 0.0, 1.0))

    @property
    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def __call__(self, query: NDArray[np.float32], ranking: RankingList, gallery: Gallery) -> Reranked:
        places = best(ranking.similarities, self.M)
        if len(places) < 2:
            return Reranked(ranking.similarities, scope="top")
        near = gallery.vectors(ranking.rows[places]).astype(np.float64) - query
        cluster = fcluster(linkage(pdist(near), "average"), self.clusters, "maxclust") - 1
        centres = np.zeros((cluster.max() + 1, near.shape[1]))
        np.add.at(centres, cluster, near)
        centres /= np.bincount(cluster)[:, None]
        to_cluster = np.sqrt(np.einsum("ij,ij->i", centres, centres))[cluster]
        adjusted = (1.0 - self.weight) * ranking.distances[places] + self.weight * to_cluster
        farthest = adjusted.max()
        closeness = 1.0 - adjusted / farthest if farthest > 0.0 else np.ones(len(places))
        return Reranked(above_the_rest(ranking, places, closeness), scope="top")
