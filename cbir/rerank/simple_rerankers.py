"""Re-rankers of one step: none, alpha query expansion, and post-retrieval clustering (PC-RR)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cbir.gallery.gallery import Gallery, RankingList, top_k
from cbir.gallery.vector_blocks import Floats, Rows
from cbir.rerank.query_list import QueryList
from cbir.rerank.reranker import (
    POSITIVES,
    CollectionReranker,
    Grid,
    Reranked,
    Reranker,
    parameter,
    score_above_rest,
)
from cbir.system.threads import checkpoint


@dataclass(frozen=True, kw_only=True)
class NoReranking(Reranker):
    """Scores are the similarities of the ranking list."""

    name = "none"
    title = "Off"
    description = "Answers in the order of visual similarity alone."

    @property
    def depth(self) -> int:
        return 0

    def __call__(self, query: Floats, ranking: RankingList, gallery: Gallery) -> Reranked:
        return Reranked(ranking.similarities)


@dataclass(frozen=True, kw_only=True)
class AlphaQueryExpansion(CollectionReranker):
    """Search the collection again with a weighted mean of the query and its P nearest images.

    F. Radenovic, G. Tolias, O. Chum: Fine-tuning CNN image retrieval with no human annotation, IEEE TPAMI 41
    (2019), first published 2018: the weight of an image is its similarity to the power alpha. There vectors have
    length 1 and the similarity is their product. Distances are Euclidean in this collection, so the similarity is
    that of the ranking list, s_i in [0, 1] (Huang et al. 2012, section 2.1), the weight of the query is 1, and a
    weighted mean stands for the scaling to length 1:

        q' = (q + sum_i s_i^alpha x_i) / (1 + sum_i s_i^alpha).
    """

    name = "aqe"
    title = "Query expansion"
    description = "Blends the query with the first answers and searches the whole collection again."
    paper: ClassVar[Mapping[str, float | str]] = {"P": 50, "alpha": 3.0}
    grid: ClassVar[Grid] = {"P": POSITIVES, "alpha": (0.0, 1.0, 3.0, 10.0)}

    P: int = parameter(10, 1, 100, "images that the query is expanded with")
    alpha: float = parameter(
        3.0, 0, 100, "power of the similarity; 0 gives every image the weight of the query"
    )

    def rerank(self, query_list: QueryList) -> tuple[Rows, Reranked]:
        ranking = (
            query_list.head_around(self._expanded(query_list)) if len(query_list) else query_list.ranking
        )
        return ranking.rows, Reranked(ranking.similarities)

    def _expanded(self, query_list: QueryList) -> Floats:
        """Return q' (d,)."""
        query, ranking = query_list.query, query_list.ranking
        nearest = top_k(ranking.similarities, self.P)
        weights = ranking.similarities[nearest].astype(np.float64) ** self.alpha
        differences = query_list.gallery.vectors(ranking.rows[nearest]).astype(np.float64) - query
        return np.asarray(query + weights @ differences / (1.0 + weights.sum()), np.float32)


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
    paper: ClassVar[Mapping[str, float | str]] = {"M": 200}  # as Huang et al. 2012 use it; it gives no others
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
