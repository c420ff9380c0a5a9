"""No re-ranking: the order of the distances."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList
from cbir.rerank.base import Reranked


@dataclass(frozen=True)
class NoReranking:
    """Scores are the similarities of the ranking list."""

    name: ClassVar[str] = "none"

    @property
    def parameters(self) -> dict[str, Any]:
        return {}

    def __call__(self, query: NDArray[np.float32], ranking: RankingList, gallery: Gallery) -> Reranked:
        return Reranked(ranking.similarities)
