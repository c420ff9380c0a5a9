"""Alpha-weighted query expansion (Radenovic, Tolias & Chum 2018): the query moves to its nearest images."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import Floats, Rows
from cbir.rerank.backend import Backend
from cbir.rerank.parameters import parameter
from cbir.rerank.reranker import POSITIVES, CollectionReranker, Grid, Reranked


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
    grid: ClassVar[Grid] = {"P": POSITIVES, "alpha": (0.0, 1.0, 3.0, 10.0)}

    P: int = parameter(10, 1, 100, "images that the query is expanded with")
    alpha: float = parameter(
        3.0, 0, 100, "power of the similarity; 0 gives every image the weight of the query"
    )

    def rerank(self, backend: Backend) -> tuple[Rows, Reranked]:
        ranking = backend.head_around(self._expanded(backend)) if len(backend) else backend.ranking
        return ranking.rows, Reranked(ranking.similarities)

    def _expanded(self, backend: Backend) -> Floats:
        """Return q' (d,)."""
        query, ranking = backend.query, backend.ranking
        nearest = top_k(ranking.similarities, self.P)
        weights = ranking.similarities[nearest].astype(np.float64) ** self.alpha
        differences = backend.gallery.vectors(ranking.rows[nearest]).astype(np.float64) - query
        return np.asarray(query + weights @ differences / (1.0 + weights.sum()), np.float32)
