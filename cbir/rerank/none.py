"""No re-ranking: the order of the distances."""

from dataclasses import dataclass

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList
from cbir.gallery.vector_blocks import Floats
from cbir.rerank.reranker import Reranked, Reranker


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
