"""Diffusion on a device: the neighbourhood graph lies there whole, and relevance flows through a part of it."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbir.gallery.knn import NEAREST
from cbir.gallery.knn_graph import ROUNDING, SCALE, Graph
from cbir.rerank.diffusion import Diffusion


class DeviceGraph:
    """A `Graph` of n images in compressed rows. Sums run along rows, each in its order: the same every time."""

    def __init__(self, graph: Graph, lengths: NDArray[np.float32], device: torch.device) -> None:
        self.source = graph
        self.starts = torch.from_numpy(graph.weights.indptr.astype(np.int64)).to(device)
        self.ends = torch.from_numpy(graph.weights.indices.astype(np.int32)).to(device)
        self.weights = torch.from_numpy(graph.weights.data).to(device)
        self.degrees, self.scale, self.reach, self.lengths = (
            torch.from_numpy(np.ascontiguousarray(values)).to(device)
            for values in (graph.degrees, graph.scale, graph.reach + ROUNDING, lengths)
        )

    def __len__(self) -> int:
        return len(self.scale)

    def spread(self, diffusion: Diffusion, squared: Tensor) -> tuple[Tensor, Tensor]:
        """Rows that relevance reaches, ascending, and what arrives there: `Diffusion.spread` on the device.

        squared: (n,) float32, the query's squared distances within the space, infinite where nothing may flow.
        """
        rows, edges = self._edges(squared)
        start = torch.zeros_like(squared)
        start[rows] = edges / (self.degrees[rows] + edges).sqrt()
        support = self._support(diffusion, start, torch.isfinite(squared))
        added = torch.zeros_like(squared)
        added[rows] = edges
        root = (self.degrees[support] + added[support]).sqrt()
        inverse = torch.where(root > 0.0, 1.0 / root, 0.0)
        passing = diffusion.damping * inverse * torch.isfinite(squared[support])
        source = (1.0 - diffusion.damping) * start[support]
        place = torch.full((len(self),), len(support), dtype=torch.int32, device=squared.device)
        place[support] = torch.arange(len(support), dtype=torch.int32, device=squared.device)
        counts, ends, weights = self._edges_of(support)
        neighbour = place[ends].long()  # the last place, one beyond the support, is always 0
        flow, nothing = source, source.new_zeros(1)
        for _ in range(diffusion.steps):
            sent = weights * torch.cat([inverse * flow, nothing])[neighbour]
            flow = passing * torch.segment_reduce(sent, "sum", lengths=counts, unsafe=True) + source
        return support[flow > 0.0], flow[flow > 0.0]

    def _edges(self, squared: Tensor) -> tuple[Tensor, Tensor]:
        """The query's neighbours, ascending, and the weights of its edges to them: `Graph.edges`."""
        nearest = torch.topk(squared, min(NEAREST, len(squared)), largest=False).values.sort().values
        nearest = nearest[torch.isfinite(nearest)]
        own = nearest[min(SCALE, len(nearest)) - 1].sqrt().clamp(min=self.source.least)
        rows = torch.nonzero((squared <= nearest[-1]) | (squared <= self.reach))[:, 0]
        apart = squared[rows]
        mutual = 0.5 * (apart <= nearest[-1]) + 0.5 * (apart <= self.reach[rows])
        return rows, torch.exp(-apart / (own * self.scale[rows])) * mutual

    def _support(self, diffusion: Diffusion, start: Tensor, allowed: Tensor) -> Tensor:
        """The images that relevance flows through, ascending: `Diffusion._support`."""
        if len(self) <= diffusion.nodes:
            return torch.arange(len(self), device=start.device)
        flow, support = start, torch.nonzero(start)[:, 0]
        for _ in range(diffusion.steps):  # beyond that many edges nothing arrives
            touched = start > 0.0
            touched[self._edges_of(support)[1]] = True
            rows = torch.nonzero(touched & allowed)[:, 0]
            counts, ends, weights = self._edges_of(rows)
            arriving = (
                torch.segment_reduce(weights * flow[ends], "sum", lengths=counts, unsafe=True) + start[rows]
            )
            rows, arriving = rows[arriving > 0.0], arriving[arriving > 0.0]
            if len(rows) > diffusion.nodes:
                order = torch.sort(arriving, descending=True, stable=True).indices
                return rows[order[: diffusion.nodes]].sort().values
            if len(rows) == len(support):
                return support
            support = rows
            flow = torch.zeros_like(start)
            flow[rows] = arriving
        return support

    def _edges_of(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of named rows: how many edges each has (r,), and their ends and weights (e,), row after row."""
        first = self.starts[rows]
        counts = self.starts[rows + 1] - first
        before = counts.cumsum(0) - counts
        total = int(counts.sum())
        shift = torch.repeat_interleave(first - before, counts, output_size=total)
        places = torch.arange(total, device=rows.device) + shift
        return counts, self.ends[places].long(), self.weights[places]
