"""Diffusion over the neighbourhood graph: relevance flows from the query to its neighbours, to theirs, and on."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.gallery import knn
from cbir.gallery import knn_graph as graphs
from cbir.gallery.gallery import Gallery
from cbir.gallery.knn_graph import Graph
from cbir.gallery.live_graph import squared_distances
from cbir.gallery.ranking import RankingList, best
from cbir.gallery.whitening import Space
from cbir.rerank.base import Reranked
from cbir.rerank.parameters import real, whole

COVERED = 0.5  # share of the gallery that must be asked for; else the graph would be full of holes
UNREACHED = 2.0  # below the last image that was reached; their own similarities, up to 1, order the others

Floats = NDArray[np.float32]


class Flow(Reranked):
    """Scores are logarithms, 0 for the best; shown as their exponentials."""

    def shown(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        return np.exp(scores)


@dataclass(frozen=True, kw_only=True)
class Diffusion:
    """Ranking on the manifold of the collection (Zhou et al. 2004, Ranking on data manifolds), from an outside query.

    f <- a S f + (1 - a) y: y joins the query with its neighbours, S the images with theirs, in a space
    with the collection's own correlations damped. An image is relevant when many short steps lead to it: what
    looks unlike the query, but like what is like it, comes up, and what is near to everything goes down.

    damping: a, the share that flows on. steps: how often. nodes: images that relevance may flow through. local: where
    there is no graph, or a condition leaves less than half of the gallery, one is made of so many of the
    nearest images.
    """

    name: ClassVar[str] = "diffusion"

    damping: float = 0.9
    steps: int = 20
    nodes: int = 20_000
    local: int = 2000

    def __post_init__(self) -> None:
        object.__setattr__(self, "damping", real("damping", self.damping, 0.0, 0.999))
        object.__setattr__(self, "steps", whole("steps", self.steps, 1, 1000))
        object.__setattr__(self, "nodes", whole("nodes", self.nodes, 1, 1_000_000))
        object.__setattr__(self, "local", whole("local", self.local, 1, 5000))

    @property
    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def __call__(self, query: NDArray[np.float32], ranking: RankingList, gallery: Gallery) -> Reranked:
        if not len(ranking):
            return Flow(np.empty(0, np.float32))
        if gallery.neighbourhood is not None and len(ranking) >= COVERED * len(gallery):
            graph, lengths = gallery.neighbourhood.covering(gallery)
            unit, _ = gallery.space.place(query[None, :])
            apart = squared_distances(gallery, gallery.space, unit, lengths)[0]
            places, images, scope = np.arange(len(ranking)), ranking.rows, "collection"
        else:
            places = np.sort(best(ranking.similarities, self.local))
            learnt = gallery.space if len(ranking) == len(gallery) else gallery.space_of(ranking.rows)
            graph, apart = _local(query, gallery.vectors(ranking.rows[places]), learnt)
            images, scope = np.arange(len(places)), "collection" if len(places) == len(ranking) else "top"
        squared = np.full(len(graph), np.inf, np.float32)
        squared[images] = apart[images]
        arrived = self.spread(graph, squared)[images]
        return Flow(scores_of(arrived, apart[images], places, ranking.similarities), scope)

    def spread(self, graph: Graph, squared: Floats) -> Floats:
        """What arrives at each of n images, (n,) float32; squared: (n,) of the query, infinite where none may."""
        edges = graph.edges(squared)
        root = np.sqrt(graph.degrees + edges)
        start = np.divide(edges, root, out=np.zeros_like(edges), where=root > 0.0)
        allowed = np.isfinite(squared)
        support = self._support(graph, start, allowed)
        weights = graph.weights[support][:, support] if len(support) < len(graph) else graph.weights
        inverse = np.divide(1.0, root[support], out=np.zeros_like(root[support]), where=root[support] > 0.0)
        passing = np.float32(self.damping) * inverse * allowed[support]
        source = np.float32(1.0 - self.damping) * start[support]
        flow = source
        for _ in range(self.steps):
            flow = passing * (weights @ (inverse * flow)) + source
        arrived = np.zeros(len(graph), np.float32)
        arrived[support] = flow
        return arrived

    def _support(self, graph: Graph, start: Floats, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The images that relevance flows through, ascending: all of them, or those that most of it reaches first."""
        if len(graph) <= self.nodes:
            return np.arange(len(graph))
        flow, support = start, np.flatnonzero(start)
        for _ in range(self.steps):  # beyond that many edges nothing arrives
            arriving = start + graph.weights[support].T @ flow[support]
            arriving *= allowed
            reached = np.flatnonzero(arriving)
            if len(reached) > self.nodes:
                return np.sort(reached[best(arriving[reached], self.nodes)])
            if len(reached) == len(support):
                return support
            flow, support = arriving, reached
        return support


def _local(query: Floats, vectors: Floats, learnt: Space) -> tuple[Graph, Floats]:
    """A graph of `vectors` (m, d) alone, and their squared distances (m,) to the query."""
    found = knn.find(vectors, learnt)
    unit, _ = learnt.place(query[None, :])
    placed, _ = learnt.place(vectors)
    return graphs.join(found), np.maximum(2.0 - 2.0 * (placed @ unit[0]), 0.0)


def scores_of(
    arrived: Floats, squared: Floats, places: NDArray[np.int64], similarities: NDArray[np.floating]
) -> NDArray[np.float64]:
    """log of what arrived, and the cosine with the query: both must be high. The others follow by similarity.

    arrived, squared: (p,) of the images at `places` of the ranking list of m similarities. Returns (m,), at most 0.
    """
    reached = arrived > 0.0
    scores = np.log(arrived[reached], dtype=np.float64) + 1.0 - squared[reached] / 2.0
    if not len(scores):
        return similarities.astype(np.float64) - 1.0
    scores -= scores.max()
    every = similarities.astype(np.float64)
    every += scores.min() - UNREACHED
    every[places[reached]] = scores
    return every
