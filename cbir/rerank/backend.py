"""Array operations that re-rankers of a whole collection share; `ListBackend` is the one in NumPy."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.live_graph import squared_distances
from cbir.gallery.ranking import RankingList, rank
from cbir.gallery.vector_blocks import Rows
from cbir.rerank.diffusion_graph import DiffusionGraph, ListGraph
from cbir.rerank.kernel_expansion import KernelExpansion
from cbir.rerank.negatives import draw_negatives

Floats = NDArray[np.float32]
Array = Any  # an array of the backend: numpy.ndarray or torch.Tensor


class NeedsFullList(Exception):
    """An operation that needs the full ranking list; re-rank on the CPU."""


class Backend(Protocol):
    """One query over a gallery. An `Array` has one value for each row of the gallery or of the list.

    Attributes
    ----------
    query : (d,) float32
        Normalised query vector.
    gallery : Gallery
        Vectors of the collection.
    k : int
        Number of hits to find.

    Operations raise NeedsFullList where the CPU has to take over.
    """

    query: Floats
    gallery: Gallery
    k: int

    def __len__(self) -> int:
        """Number of rows to rank."""
        ...

    def full_list(self) -> RankingList:
        """Return the ranking list of all rows."""
        ...

    def head(self, depth: int) -> RankingList:
        """Return the ranking list of at least the best `depth` rows."""
        ...

    def head_around(self, query: Floats) -> RankingList:
        """Return the ranking list of another `query`, at least its best k rows."""
        ...

    def with_head(self, head: RankingList, scores: Floats) -> Array:
        """Return the similarities of all rows, with `scores` in place of those of `head`."""
        ...

    def draw_negatives(self, scores: Array, *, P: int, sets: int, lowest: float, seed: int) -> Rows:
        """Draw gallery rows (sets, q) of negatives from the end of the order of `scores`; see `draw_negatives`."""
        ...

    def add_expansion(
        self, expansion: KernelExpansion, scores: Array, weight: float
    ) -> tuple[Rows, NDArray[np.floating]]:
        """Return rows, ascending and the k best among them, and expansion + weight * `scores` there."""
        ...

    def graph_distances(self) -> tuple[DiffusionGraph, Array]:
        """Return the k-NN graph and squared distances (nodes,) to the query, infinite for rows left out."""
        ...

    def list_including(self, rows: Rows) -> RankingList:
        """Return a ranking list with `rows` (ascending) and at least k rows; similarities of `rows` may be 0."""
        ...

    def to_host(self, array: Array) -> NDArray[Any]:
        """Return an array of the backend as a NumPy array."""
        ...


class ListBackend:
    """NumPy backend over the full ranking list (m rows) of a query."""

    def __init__(self, query: Floats, ranking: RankingList, gallery: Gallery) -> None:
        self.query, self.ranking, self.gallery, self.k = query, ranking, gallery, len(ranking)

    def __len__(self) -> int:
        return len(self.ranking)

    def full_list(self) -> RankingList:
        return self.ranking

    def head(self, depth: int) -> RankingList:
        return self.ranking

    def head_around(self, query: Floats) -> RankingList:
        return rank(query, self.gallery, self.ranking.rows)

    def with_head(self, head: RankingList, scores: Floats) -> Array:
        return scores

    def draw_negatives(self, scores: Array, *, P: int, sets: int, lowest: float, seed: int) -> Rows:
        return self.ranking.rows[draw_negatives(self.query, scores, P=P, sets=sets, lowest=lowest, seed=seed)]

    def add_expansion(
        self, expansion: KernelExpansion, scores: Array, weight: float
    ) -> tuple[Rows, NDArray[np.floating]]:
        rows = self.ranking.rows
        return rows, expansion.values(self.gallery, rows).astype(np.float64) + weight * scores

    def graph_distances(self) -> tuple[DiffusionGraph, Array]:
        if self.gallery.neighbourhood is None:
            raise NeedsFullList
        graph, lengths = self.gallery.neighbourhood.covering(self.gallery)
        unit, _ = self.gallery.space.transform(self.query[None, :])
        distances = squared_distances(self.gallery, self.gallery.space, unit, lengths)[0]
        squared = np.full(len(graph), np.inf, np.float32)
        squared[self.ranking.rows] = distances[self.ranking.rows]
        return ListGraph(graph), squared

    def list_including(self, rows: Rows) -> RankingList:
        return self.ranking

    def to_host(self, array: Array) -> NDArray[Any]:
        return np.asarray(array)
