"""PyTorch backend of re-rankers: passes over all vectors run on the device, the rest on the CPU."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.gallery.flow_rows import flow_rows
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import RankingList
from cbir.gallery.vector_blocks import Floats, Rows, Scores, spread_rows
from cbir.gpu.torch_expansion import expansion_values
from cbir.gpu.torch_graph import TorchGraph
from cbir.gpu.torch_list import SLACK, TorchList, rows_at_ranks, rows_with_largest
from cbir.gpu.torch_vectors import TorchVectors
from cbir.rerank.backend import Backend, NeedsFullList
from cbir.rerank.kernel_expansion import REFINED, KernelExpansion
from cbir.rerank.negatives import draw_negative_ranks
from cbir.rerank.reranker import TIE


class TorchBackend(Backend):
    """The operations of `Backend` on a device.

    Parameters
    ----------
    query : (d,) float32
        Normalised query vector.
    gallery : Gallery
        Vectors of the collection.
    vectors : TorchVectors
        Their copy on the device.
    allowed : (n,) bool or None
        Rows to rank, on the device; None for all.
    count : int
        Number of rows to rank.
    k : int
        Number of hits to find, at most `count`.
    load_graph : callable
        Returns the gallery's graph on the device.
    rows : (count,) int64 or None
        Rows to rank, ascending; None for all.
    passable : (p,) int64 or None
        Rows that relevance may flow through, see `RankingList`.
    """

    def __init__(
        self, query: Floats, gallery: Gallery, vectors: TorchVectors, allowed: Tensor | None, count: int, k: int,
        load_graph: Callable[[], TorchGraph], rows: Rows | None = None, passable: Rows | None = None,
    ) -> None:  # fmt: skip
        self.query, self.gallery, self.k = query, gallery, k
        self._rows, self._passable = rows, passable
        self._vectors, self._allowed, self._count, self._load_graph = vectors, allowed, count, load_graph
        self._products: Tensor | None = None  # of all vectors with the query

    def __len__(self) -> int:
        return self._count

    def sample_rows(self, count: int) -> Rows:
        if self._allowed is None:
            return spread_rows(self._count, count)
        rows: Rows = self.to_host(torch.nonzero(self._allowed)[:, 0]).astype(np.int64)
        return rows[spread_rows(len(rows), count)]

    def full_list(self) -> RankingList:
        raise NeedsFullList

    def head(self, depth: int) -> RankingList:
        return self._list.head(depth)

    def head_around(self, query: Floats) -> RankingList:
        return self._list_around(query).head(self.k)

    def with_scores(self, rows: Rows, scores: Floats) -> Tensor:
        similarities = self._list.similarities()
        similarities[self._list.on_device(rows)] = self._list.on_device(scores)
        return similarities

    def draw_negatives(self, scores: Tensor, *, P: int, sets: int, lowest: float, seed: int) -> Rows:
        """Draw negatives; raise NeedsFullList if there are too few.

        Parameters
        ----------
        scores, P, sets, lowest, seed
            As in `Backend.draw_negatives`.
        """
        pool, ranks = draw_negative_ranks(self.query, self._count, P=P, sets=sets, lowest=lowest, seed=seed)
        if ranks.shape[1] < P:
            raise NeedsFullList
        return rows_at_ranks(scores, pool, ranks)

    def add_expansion(self, expansion: KernelExpansion, scores: Tensor, weight: float) -> tuple[Rows, Scores]:
        """Score the best rows alone; their values are recomputed in float64.

        Parameters
        ----------
        expansion, scores, weight
            As in `Backend.add_expansion`.
        """
        values = expansion_values(expansion, self._vectors)
        if weight > TIE:
            values += weight * scores
        if self._allowed is not None:
            values.masked_fill_(~self._allowed, -torch.inf)
        rounding = 1e-6 * float(np.abs(expansion.coefficients).sum())
        rows = rows_with_largest(values, min(max(REFINED, self.k) + SLACK, self._count), rounding)
        previous = self.to_host(scores[torch.from_numpy(rows).to(scores.device)])
        exact = expansion.exact_values(self.gallery.vectors(rows)).astype(np.float32)
        return rows, exact + weight * previous.astype(np.float64)

    def graph_distances(self) -> tuple[TorchGraph, Tensor]:
        graph, space, count = self._load_graph(), self.gallery.space, len(self.gallery)
        unit, _ = space.transform(self.query[None, :])
        towards = space.projections(unit)[:, 0]
        products = self._vectors.products(np.stack([self.query, towards], axis=1))  # of list and graph
        self._products = products[:, 0]
        cosines = (products[:, 1] - float(space.centre @ towards)) / graph.lengths[:count]
        squared = torch.full((len(graph),), torch.inf, device=products.device)
        squared[:count] = (2.0 - 2.0 * cosines).clamp_(min=0.0)
        flowing = self._allowed
        if self._rows is not None and self._passable is not None:
            flowing = torch.zeros(count, dtype=torch.bool, device=products.device)
            flowing[torch.from_numpy(flow_rows(graph.graph, self._rows, self._passable))] = True
        if flowing is not None:
            squared[:count].masked_fill_(~flowing, torch.inf)
        return graph, squared

    @property
    def passable_count(self) -> int:
        return self._count if self._passable is None else len(self._passable)

    def is_listed(self, rows: Tensor) -> Tensor:
        return torch.ones_like(rows, dtype=torch.bool) if self._allowed is None else self._allowed[rows]

    def list_including(self, rows: Rows) -> RankingList:
        """Return `rows`, and where they are fewer than k the nearest images too; distances are not filled in."""
        head = self.head(self.k + len(rows)) if len(rows) < self.k else None
        listed = rows if head is None else np.union1d(rows, head.rows)
        similarities = np.zeros(len(listed), np.float32)
        if head is not None:
            similarities[np.searchsorted(listed, head.rows)] = head.similarities
        return RankingList(listed, np.full(len(listed), np.nan, np.float32), similarities)

    def to_host(self, array: Tensor) -> NDArray[np.generic]:
        return array.cpu().numpy()

    @cached_property
    def _list(self) -> TorchList:
        return self._list_around(self.query, self._products)

    def _list_around(self, query: Floats, products: Tensor | None = None) -> TorchList:
        ranking = TorchList(query, self.gallery, self._vectors, self._allowed, self._count, products)
        if not ranking.is_distinct():
            raise NeedsFullList
        return ranking
