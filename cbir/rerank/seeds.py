"""Relevance that flows through the neighbourhood graph from several examples and from judged images."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.knn_graph import Graph
from cbir.gallery.live_graph import squared_distances
from cbir.gallery.ranking import RankingList
from cbir.rerank.diffusion import COVERED, Diffusion

LEAST = 1e-6  # share of the largest flow below which an image counts as not reached


@dataclass(frozen=True, eq=False)
class Judged:
    """What the person said. rows: (j,) int64 of the gallery. relevance: (j,) float64 in [-1, 1], not 0."""

    rows: NDArray[np.int64]
    relevance: NDArray[np.float64]

    def relevant(self) -> "Judged":
        """Those judged relevant."""
        return Judged(self.rows[self.relevance > 0.0], self.relevance[self.relevance > 0.0])

    def irrelevant(self) -> "Judged":
        """Those judged not relevant."""
        return Judged(self.rows[self.relevance < 0.0], self.relevance[self.relevance < 0.0])


NOTHING = Judged(np.empty(0, np.int64), np.empty(0))


class SeededFlow(Diffusion):
    """Diffusion with every example and every judged image as a source: see `Diffusion`."""

    def reached(
        self, examples: NDArray[np.float32], judged: Judged, ranking: RankingList, gallery: Gallery
    ) -> NDArray[np.float64] | None:
        """log of how much arrives from what is relevant, and of its share in all that arrives: (m,), at most 0.

        None where the gallery has no graph, or the list leaves out more than half of it.
        """
        if gallery.neighbourhood is None or not COVERED * len(gallery) <= len(ranking) > 0:
            return None
        graph, lengths = gallery.neighbourhood.covering(gallery)
        allowed = np.zeros(len(graph), bool)
        allowed[ranking.rows] = allowed[judged.rows] = True
        units, _ = gallery.space.place(examples)
        start = np.zeros(len(graph), np.float32)
        for squared in squared_distances(gallery, gallery.space, units, lengths):
            distances = np.full(len(graph), np.inf, np.float32)
            distances[: len(squared)][allowed[: len(squared)]] = squared[allowed[: len(squared)]]
            edges = graph.edges(distances)
            joined = np.divide(
                edges, np.sqrt(graph.degrees + edges), out=np.zeros_like(edges), where=edges > 0
            )
            start += joined / max(float(joined.sum()), 1e-12)
        relevant, irrelevant = judged.relevant(), judged.irrelevant()
        start[relevant.rows] += relevant.relevance.astype(np.float32)
        for_it = self.from_seeds(graph, start, allowed)[ranking.rows].astype(np.float64)
        logs = np.log(for_it / max(for_it.max(), 1e-12) + LEAST)
        if len(irrelevant.rows):
            other = np.zeros(len(graph), np.float32)
            other[irrelevant.rows] = -irrelevant.relevance.astype(np.float32)
            against = self.from_seeds(graph, other, allowed)[ranking.rows].astype(np.float64)
            logs += np.log((for_it + LEAST) / (for_it + against + LEAST))
        return logs

    def from_seeds(
        self, graph: Graph, start: NDArray[np.float32], allowed: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """What arrives at each of n images, (n,) float32, when `start` (n,) flows in at each step."""
        support = self._support(graph, start, allowed)
        weights = graph.weights[support][:, support] if len(support) < len(graph) else graph.weights
        root = np.sqrt(graph.degrees[support])
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0.0)
        passing = np.float32(self.damping) * inverse * allowed[support]
        source = np.float32(1.0 - self.damping) * start[support]
        flow = source
        for _ in range(self.steps):
            flow = passing * (weights @ (inverse * flow)) + source
        arrived = np.zeros(len(graph), np.float32)
        arrived[support] = flow
        return arrived
