"""What every re-ranker is: query vector, ranking list and gallery in, one score an image out."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList


@dataclass(frozen=True, eq=False)
class Reranked:
    """The new scores of a ranking list.

    scores: (m,) float64 or float32, one for each of `ranking.rows`; larger is better, and equal scores keep
        the order of their rows.
    shown: what a score is reported as (a monotone function of the scores), for instance a probability.
    scope: what was re-ranked, in a word: "collection", or "top" where only the best places were.
    notes: anything the user should know, for instance that there were too few images to learn from.
    """

    scores: NDArray[np.floating]
    scope: str = "collection"
    notes: tuple[str, ...] = field(default=())

    def shown(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        """Scores as they are reported."""
        return scores


class Reranker(Protocol):
    """One method with its parameters. `name` is what the user types, `parameters` what the answer reports."""

    name: str

    @property
    def parameters(self) -> dict[str, Any]: ...

    def __call__(self, query: NDArray[np.float32], ranking: RankingList, gallery: Gallery) -> Reranked:
        """Scores for the rows of `ranking`; deterministic for equal arguments."""
        ...
