"""Images in the order of a search, without their records."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats, Scores
from cbir.rerank.auto import AgreementBlocks
from cbir.rerank.several_examples import Learner
from cbir.rerank.top_hits import TopHits
from cbir.search.search_models import MatchBox, RerankFacts
from cbir.store.views.collection_view import View


@dataclass(frozen=True, eq=False)
class RankedImages:
    """The best images for a query, best first, without their records.

    Attributes
    ----------
    numbers : (k,) int64
        The collection's numbers of the images.
    scores : (k,) floating
        Scores that they are ordered by, falling.
    reported : (k,) floating
        Scores that answers report.
    distances : (k,) float32
        Euclidean distances to the query.
    reranking : RerankFacts
        Method of re-ranking.
    likeness : float or None
        How like the searched images the query is, see `NearestDistances.likeness`.
    agreement : mapping of str to AgreementBlocks
        By label key, how often such answers agree rightly.
    matches : mapping of int to MatchBox
        By number, the place that is most like the region of a search for one.
    """

    numbers: NDArray[np.int64]
    scores: Scores
    reported: Scores
    distances: Floats
    reranking: RerankFacts
    likeness: float | None = None
    agreement: Mapping[str, AgreementBlocks] = field(default_factory=dict)
    matches: Mapping[int, MatchBox] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, positions: NDArray[np.int64]) -> Self:
        """Return the images at `positions` (j,), in that order."""
        arrays = {
            name: getattr(self, name)[positions] for name in ("numbers", "scores", "reported", "distances")
        }
        return replace(self, **arrays)


def ranked_images(
    view: View, hits: TopHits, method: Learner, scope: str | None, reason: str = ""
) -> RankedImages:
    """Convert rows to the collection's numbers; `scope` describes candidates, None for the re-ranker's own scope."""
    facts = RerankFacts(
        method=method.name,
        parameters=method.parameters,
        scope=scope or hits.reranked.scope,
        notes=hits.reranked.notes,
        reason=reason,
    )
    return RankedImages(view.gallery.ids[hits.rows], hits.scores, hits.reported, hits.distances, facts)
