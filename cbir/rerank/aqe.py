"""Alpha-weighted query expansion (Radenovic, Tolias & Chum 2018): the query moves to its nearest images."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList, best, rank
from cbir.rerank.base import Reranked
from cbir.rerank.parameters import real, whole


@dataclass(frozen=True, kw_only=True)
class AlphaQueryExpansion:
    """The whole collection is searched again with a mean of the query and its P nearest images.

    F. Radenovic, G. Tolias, O. Chum: Fine-tuning CNN image retrieval with no human annotation, IEEE TPAMI 41
    (2019), first published 2018: each image weighs its similarity to the power alpha. There vectors have
    length 1 and the similarity is their product. Here distances are Euclidean, so it is the similarity of the
    ranking list, s_i in [0, 1] (Huang et al. 2012, section 2.1), the query weighs 1, and a weighted mean stands
    for the scaling to length 1:

        q' = (q + sum_i s_i^alpha x_i) / (1 + sum_i s_i^alpha).

    P: images the query is expanded with. alpha: 0 weighs all of them like the query.
    """

    name: ClassVar[str] = "aqe"

    P: int = 10
    alpha: float = 3.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "P", whole("P", self.P, 1, 100))
        object.__setattr__(self, "alpha", real("alpha", self.alpha, 0.0, 100.0))

    @property
    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def __call__(self, query: NDArray[np.float32], ranking: RankingList, gallery: Gallery) -> Reranked:
        if len(ranking) == 0:
            return Reranked(ranking.similarities)
        expanded = self.expanded(query, ranking, gallery)
        return Reranked(rank(expanded, gallery, ranking.rows).similarities)

    def expanded(
        self, query: NDArray[np.float32], ranking: RankingList, gallery: Gallery
    ) -> NDArray[np.float32]:
        """q' (d,); of the list only the P best are looked at."""
        places = best(ranking.similarities, self.P)
        weights = ranking.similarities[places].astype(np.float64) ** self.alpha
        near = gallery.vectors(ranking.rows[places]).astype(np.float64) - query
        moved = query + weights @ near / (1.0 + weights.sum())
        return moved.astype(np.float32)
