"""Diffusion over the k-NN graph: relevance flows from the query or from judged images to neighbours, and on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.gallery import Gallery, RankingList, top_k
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import Graph, build_graph, squared_distances
from cbir.gallery.vector_blocks import Doubles, Floats, Rows, Scores, Space
from cbir.rerank.k_reciprocal import add_mutual_closeness
from cbir.rerank.query_list import QueryList, keep_sure_first
from cbir.rerank.reranker import CollectionReranker, Reranked, parameter
from cbir.system.threads import OneBlasThread, checkpoint

COVERED = 0.5  # share of the gallery that must be passable; else the graph would be full of holes
UNREACHED = 2.0  # below the last image that was reached; their own similarities, up to 1, order the others
LEAST = 1e-6  # share of the largest flow below which an image counts as not reached


class LogFlow(Reranked):
    """Scores are logarithms, 0 for the best, reported as their exponentials."""

    def reported(self, scores: Scores) -> Scores:
        return np.asarray(np.exp(scores))


@dataclass(frozen=True, kw_only=True)
class Diffusion(CollectionReranker):
    """Ranking on the manifold of the collection (Zhou et al. 2004, Ranking on data manifolds), for an outside query.

    f <- a S f + (1 - a) y: y joins the query with its neighbours, S the images with theirs, in a space
    with the collection's own correlations damped. An image is relevant when many short steps lead to it: what
    looks unlike the query, but like what is like it, moves up, and what is near to everything moves down.
    """

    name = "diffusion"
    reads_tail = False
    title = "Neighbours of neighbours"
    description = (
        "Lets relevance flow from the query to its nearest images, from those to theirs, and on through the whole "
        "collection."
    )

    # Zhou et al. 2004, until nothing changes; the k-NN graph stays that of the collection.
    paper: ClassVar[Mapping[str, float | str]] = {
        "damping": 0.99, "steps": 1000, "tail": 0.0, "closeness": 0.0, "mutual": 0.0, "sure": 0.0,
    }  # fmt: skip

    damping: float = parameter(0.9, 0.0, 0.999, "share of relevance that flows on in each step")
    steps: int = parameter(20, 1, 1000, "number of steps")
    tail: float = parameter(
        0.0, 0.0, 1.0, "weight of the steps after the last: 1 as if relevance stayed where it then is"
    )
    nodes: int = parameter(20_000, 1, 1_000_000, "images that relevance may flow through")
    closeness: float = parameter(1.0, 0.0, 1000.0, "weight of the cosine with the query beside the logarithm")
    mutual: float = parameter(
        0.0, 0.0, 1000.0, "weight of the neighbours that the nearest images share with the query"
    )
    local: int = parameter(
        2000, 1, 5000, "nearest images to link where there is no graph or half of the gallery is filtered out"
    )
    sure: float = parameter(
        0.85, 0.0, 1.0, "the nearest image stays first if nearer than this share of the fifth's distance"
    )

    def rerank(self, query_list: QueryList) -> tuple[Rows, Reranked]:
        rows, reranked = self.diffuse(query_list)
        return rows, replace(reranked, scores=keep_sure_first(query_list, reranked.scores, self.sure))

    def diffuse(self, query_list: QueryList) -> tuple[Rows, Reranked]:
        """Return gallery rows, ascending, and their scores, before the first answer is decided."""
        gallery = query_list.gallery
        local = gallery.neighbourhood is None or not COVERED * len(gallery) <= query_list.passable_count > 0
        rows, reranked = self._rerank_locally(query_list) if local else self._rerank_through_graph(query_list)
        if not self.mutual:
            return rows, reranked
        return rows, replace(reranked, scores=add_mutual_closeness(query_list, reranked.scores, self.mutual))

    def _rerank_through_graph(self, query_list: QueryList) -> tuple[Rows, Reranked]:
        """Diffuse over the graph of the collection."""
        graph, squared = query_list.graph_distances()
        reached, flow = self.spread(graph, squared)
        listed, ranking = query_list.is_listed(reached), query_list.ranking
        reached, flow = reached[listed], flow[listed]
        positions = np.searchsorted(ranking.rows, reached)
        scores = log_scores(flow, squared[reached], positions, ranking.similarities, self.closeness)
        return ranking.rows, LogFlow(scores)

    def _rerank_locally(self, query_list: QueryList) -> tuple[Rows, Reranked]:
        """Diffuse over a graph of the nearest images alone."""
        ranking, gallery = query_list.ranking, query_list.gallery
        if not len(ranking):
            return ranking.rows, LogFlow(np.empty(0, np.float32))
        nearest = np.sort(top_k(ranking.similarities, self.local))
        population = ranking.population
        limited = population is not None and len(population) < len(gallery)
        space = gallery.space_of(population) if limited and population is not None else gallery.space
        graph, squared = _local_graph(query_list.query, gallery.vectors(ranking.rows[nearest]), space)
        reached, flow = self.spread(graph, squared)
        scores = log_scores(flow, squared[reached], nearest[reached], ranking.similarities, self.closeness)
        return ranking.rows, LogFlow(scores, "collection" if len(nearest) == len(ranking) else "top")

    def spread(self, graph: Graph, squared: Floats) -> tuple[Rows, Scores]:
        """Let relevance flow from the query.

        Parameters
        ----------
        graph : Graph
            Graph of n nodes.
        squared : (n,) float32
            Squared distances of the query to the nodes, infinite where nothing may flow.

        Returns
        -------
        nodes : (r,) int
            Nodes that relevance reaches, ascending.
        flow : (r,) float32
            Relevance that arrives there, above 0.
        """
        edges = graph.edges(squared)
        root = np.sqrt(graph.degrees + edges)
        return self.iterate(graph, quotients(edges, root), root, np.isfinite(squared))

    def iterate(
        self, graph: Graph, start: Floats, root: Floats, passable: NDArray[np.bool_]
    ) -> tuple[Rows, Scores]:
        """Run the steps of the diffusion.

        Parameters
        ----------
        graph : Graph
            Graph of n nodes.
        start : (n,) float32
            Relevance that flows in at each step.
        root : (n,) float32
            Square roots of the degrees.
        passable : (n,) bool
            Nodes that relevance may flow through.

        Returns
        -------
        nodes, flow
            As `spread` returns them.
        """
        support = self.support(graph, start, passable)
        checkpoint()
        weights = graph.within(support)
        checkpoint()
        inverse = quotients(1.0, root[support])
        passing = self.damping * inverse * passable[support]
        source = (1.0 - self.damping) * start[support]
        # (a S)^n (1 - a) y summed over all n >= steps is (a S)^steps y where S changes it no more.
        flow = source + self.tail * (start[support] - source)
        for _ in range(self.steps):
            checkpoint()
            flow = passing * (weights @ (inverse * flow)) + source
        reached = flow > 0.0
        return support[reached], flow[reached]

    def support(self, graph: Graph, start: Floats, passable: NDArray[np.bool_]) -> Rows:
        """Return the nodes that relevance flows through: all, or the `nodes` that most of it reaches first.

        Parameters
        ----------
        graph, start, passable
            As in `iterate`.
        """
        if len(graph) <= self.nodes:
            return np.arange(len(graph))
        sources = np.flatnonzero(start != 0)  # of booleans: several times as fast as of floats
        flow, support = start[sources], sources
        for _ in range(self.steps):  # nothing arrives beyond that many edges
            checkpoint()
            reached, arriving = graph.push(flow, support, sources)
            arriving = (start[reached] + arriving) * passable[reached]
            kept = arriving != 0
            reached, arriving = reached[kept], arriving[kept]
            if len(reached) > self.nodes:
                return np.asarray(reached[np.sort(top_k(arriving, self.nodes))])
            if len(reached) == len(support):
                return support
            flow, support = arriving, reached
        return support


def quotients(left: Floats | float, right: Floats) -> Floats:
    """Return left / right, 0 where `right` is 0."""
    return np.divide(left, right, out=np.zeros_like(right), where=right > 0.0)


def _local_graph(query: Floats, vectors: Floats, space: Space) -> tuple[Graph, Floats]:
    """Return the graph of `vectors` (m, d) and their squared distances (m,) to the query within `space`."""
    neighbours = find_neighbours(vectors, space)
    with OneBlasThread():
        unit, _ = space.transform(query[None, :])
        units, _ = space.transform(vectors)
        cosines = units @ unit[0]
    return build_graph(neighbours), np.maximum(2.0 - 2.0 * cosines, 0.0)


def log_scores(
    flow: Floats, squared: Floats, positions: NDArray[np.int64], similarities: Scores, closeness: float
) -> Doubles:
    """Score images by the logarithm of their flow plus a weighted cosine with the query; the others by similarity.

    Parameters
    ----------
    flow, squared : (r,) float32
        Flow, above 0, and squared distance to the query of the images that relevance reaches.
    positions : (r,) int64
        Their positions in the ranking list.
    similarities : (m,) floating
        Similarities of the list.
    closeness : float
        Weight of the cosine.

    Returns
    -------
    (m,) float64
        At most 0.
    """
    reached = np.log(flow, dtype=np.float64) + closeness * (1.0 - squared / 2.0)
    if not len(reached):
        return similarities.astype(np.float64) - 1.0
    reached -= reached.max()
    scores = similarities.astype(np.float64)
    scores += reached.min() - UNREACHED
    scores[positions] = reached
    return scores


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
