"""Sparse graph operations that diffusion needs."""

from collections.abc import Callable

import numpy as np

from cbir.gallery.knn_graph import Graph
from cbir.gallery.ranking import top_k
from cbir.gallery.vector_blocks import Floats, Rows, Scores


class DiffusionGraph:
    """A gallery's k-NN graph of n nodes.

    Attributes
    ----------
    degrees : (n,) float32
        Sums of the weights of each node's edges.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.degrees = graph.degrees

    def __len__(self) -> int:
        return len(self.graph)

    def edges(self, squared: Floats) -> Floats:
        """Return the edge weights (n,) of the query from its squared distances, infinite where it has none."""
        return self.graph.edges(squared)

    def nodes(self) -> Rows:
        """Return the numbers of all nodes."""
        return np.arange(len(self))

    def nonzero(self, values: Floats) -> Rows:
        """Return the nodes, ascending, where `values` (n,) are not 0."""
        return np.flatnonzero(values != 0)  # of booleans: several times as fast as of floats

    def largest(self, values: Floats, count: int) -> Rows:
        """Return the positions of the `count` largest values, ascending; of equal values the first."""
        return np.sort(top_k(values, count))

    def divide(self, left: Floats | float, right: Floats) -> Floats:
        """Return left / right, 0 where `right` is 0."""
        return np.divide(left, right, out=np.zeros_like(right), where=right > 0.0)

    def push(self, flow: Floats, nodes: Rows, beside: Rows) -> tuple[Rows, Floats]:
        """Send the flow (s,) of some nodes along their edges; passes over all nodes would take most of the time.

        Parameters
        ----------
        flow : (s,) float32
            What each of `nodes` sends.
        nodes : (s,) int
            Nodes, ascending.
        beside : (b,) int
            Further nodes of the result.

        Returns
        -------
        reached : (r,) int
            Nodes that edges lead to, and those `beside` them, ascending.
        arriving : (r,) float32
            What arrives there.
        """
        edges = self.graph.weights[nodes]
        touched = np.zeros(len(self), bool)
        touched[edges.indices] = touched[beside] = True
        reached = np.flatnonzero(touched)
        return reached, (edges.T @ flow)[reached]

    def within(self, nodes: Rows) -> Callable[[Scores], Scores]:
        """Return the product with the weights between `nodes` (s,) as a function of (s,) values."""
        weights = self.graph.weights
        if len(nodes) < len(self):
            weights = weights[nodes][:, nodes]
        return lambda values: weights @ values
