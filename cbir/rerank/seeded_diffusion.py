"""Diffusion from several examples and from judged images."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery
from cbir.gallery.knn_graph import Graph, squared_distances
from cbir.gallery.ranking import RankingList
from cbir.gallery.vector_blocks import Doubles, Floats
from cbir.rerank.diffusion import COVERED, Diffusion, quotients
from cbir.system.cancellation import checkpoint

LEAST = 1e-6  # share of the largest flow below which an image counts as not reached


@dataclass(frozen=True, eq=False)
class RelevanceFeedback:
    """Judgements of images by a person.

    Attributes
    ----------
    rows : (j,) int64
        Rows of the gallery.
    relevance : (j,) float64
        In [-1, 1], not 0.
    """

    rows: NDArray[np.int64]
    relevance: Doubles

    def relevant(self) -> "RelevanceFeedback":
        """Return the images judged relevant."""
        return RelevanceFeedback(self.rows[self.relevance > 0.0], self.relevance[self.relevance > 0.0])

    def irrelevant(self) -> "RelevanceFeedback":
        """Return the images judged not relevant."""
        return RelevanceFeedback(self.rows[self.relevance < 0.0], self.relevance[self.relevance < 0.0])


class SeededDiffusion(Diffusion):
    """Diffusion with every example and every judged image as a source."""

    def log_flow(
        self, examples: Floats, feedback: RelevanceFeedback, ranking: RankingList, gallery: Gallery
    ) -> Doubles | None:
        """Score images by the flow from relevant images, and by its share in the flow from all judged images.

        Parameters
        ----------
        examples : (e, d) float32
            Normalised vectors of the examples.
        feedback : RelevanceFeedback
            Judged images.
        ranking : RankingList
            List of m images.
        gallery : Gallery
            Vectors of the collection.

        Returns
        -------
        (m,) float64 or None
            Sum of both logarithms, at most 0; None without a graph, or where the list leaves out more than half of
            the gallery.
        """
        if gallery.neighbourhood is None or not COVERED * len(gallery) <= len(ranking) > 0:
            return None
        graph, lengths = gallery.neighbourhood.covering(gallery)
        passable = np.zeros(len(graph), bool)
        passable[ranking.rows] = passable[feedback.rows] = True
        units, _ = gallery.space.transform(examples)
        start = np.zeros(len(graph), np.float32)
        for distances in squared_distances(gallery, gallery.space, units, lengths):
            checkpoint()
            squared = np.full(len(graph), np.inf, np.float32)
            covered = passable[: len(distances)]
            squared[: len(distances)][covered] = distances[covered]
            edges = graph.edges(squared)
            joined = quotients(edges, np.sqrt(graph.degrees + edges))
            start += joined / max(float(joined.sum()), 1e-12)
        relevant, irrelevant = feedback.relevant(), feedback.irrelevant()
        start[relevant.rows] += relevant.relevance.astype(np.float32)
        support = self.flow_from(graph, start, passable)[ranking.rows].astype(np.float64)
        checkpoint()
        logs: Doubles = np.log(support / max(support.max(), 1e-12) + LEAST)
        if len(irrelevant.rows):
            other = np.zeros(len(graph), np.float32)
            other[irrelevant.rows] = -irrelevant.relevance.astype(np.float32)
            against = self.flow_from(graph, other, passable)[ranking.rows].astype(np.float64)
            logs += np.log((support + LEAST) / (support + against + LEAST))
        return logs

    def flow_from(self, graph: Graph, start: Floats, passable: NDArray[np.bool_]) -> Floats:
        """Return the relevance that arrives at each node.

        Parameters
        ----------
        graph : Graph
            Graph of n nodes.
        start : (n,) float32
            Relevance that flows in at each step.
        passable : (n,) bool
            Nodes that relevance may flow through.

        Returns
        -------
        (n,) float32
        """
        nodes, flow = self.iterate(graph, start, np.sqrt(graph.degrees), passable)
        arrived = np.zeros(len(graph), np.float32)
        arrived[nodes] = flow
        return arrived
