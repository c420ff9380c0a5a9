"""Sparse graph operations that diffusion needs; `ListGraph` has them in NumPy and SciPy."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.knn_graph import Graph
from cbir.gallery.ranking import top_k

Array = Any  # numpy.ndarray or torch.Tensor; (n,) has one value for each node


class DiffusionGraph(Protocol):
    """A k-NN graph of n nodes.

    Attributes
    ----------
    degrees : (n,) float32
        Sums of the weights of each node's edges.
    xp : module
        numpy or torch, for element-wise functions.
    """

    degrees: Array
    xp: Any

    def __len__(self) -> int: ...

    def edges(self, squared: Array) -> Array:
        """Return the edge weights (n,) of the query from its squared distances, infinite where it has none."""
        ...

    def nodes(self) -> Array:
        """Return the numbers of all nodes."""
        ...

    def nonzero(self, values: Array) -> Array:
        """Return the nodes, ascending, where `values` (n,) are not 0."""
        ...

    def largest(self, values: Array, count: int) -> Array:
        """Return the places of the `count` largest values, ascending; of equal values the first."""
        ...

    def divide(self, left: Array | float, right: Array) -> Array:
        """Return left / right, 0 where `right` is 0."""
        ...

    def push(self, flow: Array, nodes: Array) -> Array:
        """Return what arrives at each node (n,) along the edges of `nodes`."""
        ...

    def within(self, nodes: Array) -> Callable[[Array], Array]:
        """Return the product with the weights between `nodes` (s,) as a function of (s,) values."""
        ...


class ListGraph:
    """A gallery's `Graph` in NumPy."""

    xp: Any = np

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.degrees: Array = graph.degrees

    def __len__(self) -> int:
        return len(self.graph)

    def edges(self, squared: Array) -> Array:
        return self.graph.edges(squared)

    def nodes(self) -> Array:
        return np.arange(len(self))

    def nonzero(self, values: Array) -> Array:
        return np.flatnonzero(values)

    def largest(self, values: Array, count: int) -> Array:
        return np.sort(top_k(values, count))

    def divide(self, left: Array | float, right: Array) -> Array:
        return np.divide(left, right, out=np.zeros_like(right), where=right > 0.0)

    def push(self, flow: Array, nodes: Array) -> Array:
        return self.graph.weights[nodes].T @ flow[nodes]

    def within(self, nodes: Array) -> Callable[[Array], NDArray[np.float32]]:
        weights = self.graph.weights
        if len(nodes) < len(self):
            weights = weights[nodes][:, nodes]
        return lambda values: weights @ values
