"""Base classes of re-rankers, and the result of re-ranking."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery, RankingList
from cbir.gallery.vector_blocks import Doubles, Floats, Rows, Scores
from cbir.rerank.backend import Backend
from cbir.rerank.parameters import ParameterSet

Grid = Mapping[str, tuple[float, ...]]  # values to try of each parameter

TIE = 1e-8  # weight of the previous score, which breaks ties; below the resolution of float32
POSITIVES = (3, 6, 9, 12, 15)  # values of P to try: images taken as relevant (Huang et al. 2012, figure 4)


@dataclass(frozen=True, eq=False)
class Reranked:
    """New scores of a ranking list.

    Attributes
    ----------
    scores : (m,) float32 or float64
        One for each row of the list; larger is better, equal scores keep the order of their rows.
    scope : str
        Part that was re-ranked: "collection", or "top" for the first candidates alone.
    notes : tuple of str
        Messages for the user, such as too few images to train on.
    """

    scores: Scores
    scope: str = "collection"
    notes: tuple[str, ...] = ()

    def reported(self, scores: Scores) -> Scores:
        """Convert `scores` to the values that answers report: a monotone function, such as a probability."""
        return scores


@dataclass(frozen=True, kw_only=True)
class Reranker(ParameterSet):
    """One re-ranking method with its parameters.

    A subclass sets `name` (as users type it), `title` and `description` (as the search page shows them), declares
    its parameters with `parameter(...)`, and implements `__call__`. It may set `depth`, `grid` (values that
    comparisons try) and `svm_grid` (values of C and gamma that `cbir collection tune` tries). Whoever changes the
    scores of a method raises its `version`: tables of results name the versions that they were measured with.
    """

    version: ClassVar[int] = 1
    name: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str]
    grid: ClassVar[Grid] = {}
    svm_grid: ClassVar[Grid] = {}
    reads_tail: ClassVar[bool] = True  # whether images far from the query change the scores of near ones

    @property
    def depth(self) -> int | None:
        """Number of top candidates that the method reads or may move down, a parameter M; None for the full list."""
        return getattr(self, "M", None)

    @abstractmethod
    def __call__(self, query: Floats, ranking: RankingList, gallery: Gallery) -> Reranked:
        """Score the rows of a ranking list; equal arguments give equal scores.

        Parameters
        ----------
        query : (d,) float32
            Normalised query vector.
        ranking : RankingList
            Rows of the gallery with their distances to the query.
        gallery : Gallery
            Vectors of the collection.
        """

    def rerank(self, backend: Backend) -> tuple[Rows, Reranked]:
        """Re-rank on `backend`; return gallery rows, ascending, and their scores.

        The rows include the backend's k best.
        """
        return backend.ranking.rows, self(backend.query, backend.ranking, backend.gallery)

    @classmethod
    def tuned_names(cls) -> tuple[str, ...]:
        """Return the parameters that a profile may set."""
        return cls.parameter_names()

    @classmethod
    def settings_name(cls) -> str:
        """Return the name under which a profile holds parameters of this method alone."""
        return cls.name

    @classmethod
    def tuning_points(cls) -> list[dict[str, float]]:
        """Return parameters to try when a method is tuned: all combinations of `grid`, the defaults among them.

        Without a grid these are the defaults; for a method that has a P, each of `POSITIVES`.
        """
        names = cls.parameter_names()
        grid = cls.grid or ({"P": POSITIVES} if "P" in names else {})
        points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        defaults = cls().parameters
        default = {name: defaults[name] for name in grid}
        return points if default in points else [default, *points]


class CollectionReranker(Reranker):
    """Base of methods that score the whole collection through the operations of a backend."""

    def __call__(self, query: Floats, ranking: RankingList, gallery: Gallery) -> Reranked:
        return self.rerank(Backend(query, ranking, gallery))[1]

    @abstractmethod
    def rerank(self, backend: Backend) -> tuple[Rows, Reranked]:
        """Re-rank on `backend`; return gallery rows, ascending, and their scores."""


def score_above_rest(ranking: RankingList, positions: NDArray[np.int64], closeness: Scores) -> Doubles:
    """Score re-ranked top candidates above all other images of a list.

    Parameters
    ----------
    ranking : RankingList
        List of m images.
    positions : (p,) int64
        Places of the top candidates in the list.
    closeness : (p,) floating, in [0, 1]
        Rounded to float32, so that equal images, whose sums may differ in the last bits, tie.

    Returns
    -------
    (m,) float64
        1 + closeness at `positions`, the similarity elsewhere.
    """
    scores = ranking.similarities.astype(np.float64)
    scores[positions] = 1.0 + closeness.astype(np.float32) + TIE * (1.0 + scores[positions])
    return scores
