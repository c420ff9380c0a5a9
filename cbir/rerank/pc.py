"""Post-retrieval clustering, PC-RR (Park, Baek & Lee 2005): images move up with the cluster they belong to."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList, top_k
from cbir.gallery.vector_blocks import Floats
from cbir.rerank.parameters import parameter
from cbir.rerank.reranker import Grid, Reranked, Reranker, score_above_rest
from cbir.system.cancellation import checkpoint


@dataclass(frozen=True, kw_only=True)
class PostRetrievalClustering(Reranker):
    """Cluster the best M images and move up those of clusters near the query.

    G. Park, Y. Baek, H.-K. Lee: Re-ranking algorithm using post-retrieval clustering for content-based image
    retrieval, Information Processing & Management 41 (2005) 177-194. Hierarchical agglomerative clustering,
    here with the mean distance between clusters (group average); then

        d'(q, i) = (1 - weight) d(q, i) + weight d(q, centre of the cluster of i).

    The score is 1 + (1 - d' / largest d') for the M images, the similarity below.
    """

    name = "pc"
    title = "Clusters (PC)"
    description = (
        "Groups the nearest images by their likeness and moves up the groups that are close to the query."
    )
    grid: ClassVar[Grid] = {"M": (50, 200), "clusters": (10, 20, 50), "weight": (0.2, 0.5, 0.8)}

    M: int = parameter(200, 1, 1000, "images that are clustered; Huang et al. 2012 use 200")
    clusters: int = parameter(20, 1, 1000, "largest number of clusters")
    weight: float = parameter(0.5, 0.0, 1.0, "of the cluster's distance against the image's own")

    def __call__(self, query: Floats, ranking: RankingList, gallery: Gallery) -> Reranked:
        top = top_k(ranking.similarities, self.M)
        if len(top) < 2:
            return Reranked(ranking.similarities, scope="top")
        # Only now: they take longer to import than a query.
        from scipy.cluster.hierarchy import fcluster, linkage
        from scipy.spatial.distance import pdist

        offsets = gallery.vectors(ranking.rows[top]).astype(np.float64) - query
        distances = pdist(offsets)
        checkpoint()
        cluster = fcluster(linkage(distances, "average"), self.clusters, "maxclust") - 1
        checkpoint()
        centres = np.zeros((cluster.max() + 1, offsets.shape[1]))
        np.add.at(centres, cluster, offsets)
        centres /= np.bincount(cluster)[:, None]
        to_cluster = np.sqrt(np.einsum("ij,ij->i", centres, centres))[cluster]
        adjusted = (1.0 - self.weight) * ranking.distances[top] + self.weight * to_cluster
        farthest = adjusted.max()
        closeness = 1.0 - adjusted / farthest if farthest > 0.0 else np.ones(len(top))
        return Reranked(score_above_rest(ranking, top, closeness), scope="top")
