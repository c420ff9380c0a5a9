"""k-NN graph on a device, for diffusion."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbir.gallery.knn import NEAREST
from cbir.gallery.knn_graph import ROUNDING, SCALE, Graph
from cbir.gallery.vector_blocks import Floats
from cbir.hardware.device_memory import in_pieces, rows_within
from cbir.rerank.diffusion_graph import DiffusionGraph

EDGES = 512 << 20  # bytes of edges that are followed at a time
BYTES_AN_EDGE = 40  # their numbers, ends, weights and what flows along


class TorchGraph(DiffusionGraph):
    """The operations of `DiffusionGraph` on a device, for n nodes in compressed rows.

    Sums run along rows, each in its order: the same every time.

    Parameters
    ----------
    graph : Graph
        The gallery's graph.
    lengths : (n,) float32
        Lengths of the vectors within its space.
    device : torch.device
        Where to keep the copy.
    """

    xp: Any = torch

    def __init__(self, graph: Graph, lengths: Floats, device: torch.device) -> None:
        self.graph = graph
        self._starts = torch.from_numpy(graph.weights.indptr.astype(np.int64)).to(device)
        self._ends = torch.from_numpy(graph.weights.indices.astype(np.int32)).to(device)
        self._weights = torch.from_numpy(graph.weights.data).to(device)
        self.degrees, self._scale, self._reach, self.lengths = (
            torch.from_numpy(np.ascontiguousarray(values)).to(device)
            for values in (graph.degrees, graph.scale, graph.reach + ROUNDING, lengths)
        )

        edges_a_node = len(self._ends) / max(1, len(self._scale))
        self._nodes_at_once = rows_within(EDGES, round(BYTES_AN_EDGE * max(1.0, edges_a_node)))

    def __len__(self) -> int:
        return len(self._scale)

    def edges(self, squared: Tensor) -> Tensor:
        nearest = torch.topk(squared, min(NEAREST, len(squared)), largest=False).values.sort().values
        nearest = nearest[torch.isfinite(nearest)]
        weights = torch.zeros_like(squared)
        if not len(nearest):
            return weights
        query_scale = nearest[min(SCALE, len(nearest)) - 1].sqrt().clamp(min=self.graph.least)
        rows = self.nonzero((squared <= nearest[-1]) | (squared <= self._reach))
        distances = squared[rows]
        mutual = 0.5 * (distances <= nearest[-1]) + 0.5 * (distances <= self._reach[rows])
        weights[rows] = torch.exp(-distances / (query_scale * self._scale[rows])) * mutual
        return weights

    def nodes(self) -> Tensor:
        return torch.arange(len(self), device=self._scale.device)

    def nonzero(self, values: Tensor) -> Tensor:
        return torch.nonzero(values)[:, 0]

    def largest(self, values: Tensor, count: int) -> Tensor:
        order = torch.sort(values, descending=True, stable=True).indices
        return order[:count].sort().values

    def divide(self, left: Tensor | float, right: Tensor) -> Tensor:
        return torch.where(right > 0.0, left / right, 0.0)

    def push(self, flow: Tensor, nodes: Tensor, beside: Tensor) -> tuple[Tensor, Tensor]:
        sent, touched = torch.zeros_like(self.degrees), torch.zeros_like(self.degrees, dtype=torch.bool)
        sent[nodes] = flow

        def touch(rows: slice) -> None:
            touched[self._edges_of(nodes[rows])[1]] = True

        for _ in in_pieces(touch, len(nodes), self._nodes_at_once):
            pass
        touched[beside] = True
        reached = self.nonzero(touched)
        if not len(reached):
            return reached, flow

        def arrive(rows: slice) -> Tensor:
            counts, ends, weights = self._edges_of(reached[rows])
            return torch.segment_reduce(weights * sent[ends], "sum", lengths=counts, unsafe=True)

        return reached, torch.cat(list(in_pieces(arrive, len(reached), self._nodes_at_once)))

    def within(self, nodes: Tensor) -> Callable[[Tensor], Tensor]:
        index = torch.full((len(self),), len(nodes), dtype=torch.int32, device=nodes.device)
        index[nodes] = torch.arange(len(nodes), dtype=torch.int32, device=nodes.device)
        counts, ends, weights = self._edges_of(nodes)
        neighbour = index[ends].long()  # one beyond the nodes is always 0
        zero = self.degrees.new_zeros(1)

        def multiply(values: Tensor) -> Tensor:
            sent = weights * torch.cat([values, zero])[neighbour]
            return torch.segment_reduce(sent, "sum", lengths=counts, unsafe=True)

        return multiply

    def _edges_of(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the number of edges (r,) of `rows`, and their ends and weights (e,), row after row."""
        first = self._starts[rows]
        counts = self._starts[rows + 1] - first
        before = counts.cumsum(0) - counts
        total = int(counts.sum())
        shift = torch.repeat_interleave(first - before, counts, output_size=total)
        edges = torch.arange(total, device=rows.device) + shift
        return counts, self._ends[edges].long(), self._weights[edges]
