"""Diffusion against dense matrices, with and without a graph of the whole gallery."""

from dataclasses import replace

import numpy as np
import pytest

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.gallery import knn, knn_graph
from cbir.gallery import vector_blocks as whitening
from cbir.gallery.gallery import Gallery, rank
from cbir.gallery.knn import NEAREST
from cbir.gallery.knn_graph import SCALE, Neighbourhood, flow_rows
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.query_list import QueryList


def vectors(count: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = 1.5 * random.standard_normal((6, 12))
    return (centres[random.integers(0, 6, count)] + random.standard_normal((count, 12))).astype(np.float32)


def gallery(held: np.ndarray, linked: int | None = None) -> Gallery:
    """A gallery whose first `linked` images (all) a snapshot has told the neighbours of."""
    linked = len(held) if linked is None else linked
    result = knn.find_neighbours(held[:linked], whitening.fit_space(held[:linked]))
    return Gallery((held[:linked], held[linked:]), np.arange(len(held)), (), Neighbourhood(result))


def obvious(
    query: np.ndarray,
    held: np.ndarray,
    rows: np.ndarray,
    diffusion: Diffusion,
    of_space: np.ndarray | None = None,
) -> np.ndarray:
    """What arrives at `rows`, times the closeness: the graph of all images dense, the query one more node.

    `of_space`: the vectors whose correlations are damped, by default those of the images.
    """
    fitted = whitening.fit_space(held if of_space is None else of_space)

    def place(vector: np.ndarray) -> np.ndarray:
        placed = (vector.astype(float) - fitted.centre) @ fitted.projection.astype(float)
        return placed / np.linalg.norm(placed, axis=-1, keepdims=True)

    placed = place(held)
    distances_apart = ((placed[:, None] - placed[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distances_apart, np.inf)
    ordered = np.sort(distances_apart, axis=1)
    scale, reach = np.sqrt(ordered[:, SCALE - 1]), ordered[:, NEAREST - 1]
    near = distances_apart <= reach[:, None]
    weights = np.exp(-distances_apart / np.outer(scale, scale)) * (near + near.T.astype(float)) / 2
    away = np.full(len(held), np.inf)
    away[rows] = ((placed - place(query)) ** 2).sum(axis=1)[rows]
    own = np.sort(away)
    joins = (away <= own[NEAREST - 1]) * 0.5 + (away <= reach) * 0.5
    edges = np.where(np.isfinite(away), np.exp(-away / (np.sqrt(own[SCALE - 1]) * scale)), 0.0) * joins
    degree = weights.sum(axis=1) + edges
    source = edges / np.sqrt(degree)
    allowed = np.isin(np.arange(len(held)), rows)
    passing = allowed[:, None] * weights * allowed / np.sqrt(np.outer(degree, degree))
    flow = (diffusion.tail + (1 - diffusion.tail) * (1 - diffusion.damping)) * source
    for _ in range(diffusion.steps):
        flow = diffusion.damping * passing @ flow + (1 - diffusion.damping) * source
    return flow[rows] * np.exp(1 - away[rows] / 2)


@pytest.mark.parametrize(("seed", "tail"), [(0, 0.0), (1, 0.0), (2, 0.5), (3, 1.0)])
def test_equals_the_obvious_way(seed: int, tail: float) -> None:
    held = vectors(250, seed)
    query = vectors(1, seed + 100)[0]
    rows = np.flatnonzero(np.arange(250) % 5)
    diffusion = Diffusion(damping=0.8, tail=tail, sure=0.0)
    whole = gallery(held)
    expected = obvious(query, held, rows, diffusion)
    result = diffusion(query, rank(query, whole, rows), whole)
    assert result.scope == "collection"
    reached = expected > 0
    assert reached.any()
    shown = result.reported(result.scores[reached])
    np.testing.assert_allclose(shown, expected[reached] / expected.max(), rtol=2e-3, atol=1e-9)
    assert not (~reached).any() or result.scores[~reached].max() < result.scores[reached].min()


@pytest.mark.parametrize("nearest", [40, 100])
@pytest.mark.parametrize("limited", [False, True])
def test_a_graph_of_the_nearest_images_alone_equals_the_obvious_way(nearest: int, limited: bool) -> None:
    """In the space of what the caller may see; the others stand below, as near as they are."""
    held, query = vectors(300), vectors(1, 9)[0]
    whole, rows = gallery(held), np.arange(0, 300, 3)
    ranking, diffusion = rank(query, whole, rows), Diffusion(damping=0.8, sure=0.0, local=nearest)
    ranking = replace(ranking, population=rows if limited else None)
    linked = np.sort(np.argsort(-ranking.similarities, kind="stable")[:nearest])
    expected = obvious(
        query, held[rows[linked]], np.arange(nearest), diffusion, held[rows] if limited else held
    )
    result = diffusion(query, ranking, whole)
    shown = result.reported(result.scores[linked])
    np.testing.assert_allclose(shown, expected / expected.max(), rtol=2e-3, atol=1e-9)
    others = np.setdiff1d(np.arange(100), linked)
    order = others[np.argsort(-ranking.similarities[others], kind="stable")]
    assert (np.diff(result.scores[np.append(linked[np.argmin(expected)], order)]) < 0).all()


def test_a_tail_stands_for_steps_that_are_not_run() -> None:
    whole, query = gallery(vectors(250)), vectors(1, 9)[0]
    ranking = rank(query, whole)

    def scores(steps: int, tail: float) -> np.ndarray:
        return Diffusion(damping=0.97, steps=steps, tail=tail, sure=0.0)(query, ranking, whole).scores

    limit = scores(1000, 0.0)
    assert np.abs(scores(20, 1.0) - limit).mean() < 0.5 * np.abs(scores(20, 0.0) - limit).mean()


def test_does_not_matter_whether_the_query_is_in_the_gallery() -> None:
    """An image that is left out has no part in its own ranking."""
    held = vectors(200)
    whole = gallery(held)
    others = np.arange(1, 200)
    once = Diffusion()(held[0], rank(held[0], whole, others), whole)
    again = Diffusion()(held[0].copy(), rank(held[0], whole, others), whole)
    np.testing.assert_array_equal(once.scores, again.scores)
    assert once.scores.max() == 0.0


def test_a_condition_that_leaves_little_makes_a_graph_of_its_own() -> None:
    held = vectors(300)
    whole, query = gallery(held), vectors(1, 9)[0]
    rows = np.arange(0, 300, 3)
    result = Diffusion()(query, rank(query, whole, rows), whole)
    assert result.scope == "collection"
    part = Diffusion(local=40)(query, rank(query, whole, rows), whole)
    assert part.scope == "top"
    nearest = np.argsort(-rank(query, whole, rows).similarities)[:40]
    assert set(np.argsort(-part.scores)[:40]) == set(nearest)


@pytest.mark.parametrize(("visible", "scope"), [(150, "collection"), (149, "top")])
def test_half_of_the_gallery_is_enough_for_its_graph(visible: int, scope: str) -> None:
    """Relevance reaches all of it; a graph of the nearest alone has no more than these."""
    whole, query = gallery(vectors(300)), vectors(1, 9)[0]
    ranking = rank(query, whole, np.arange(visible))
    assert Diffusion(local=20)(query, ranking, whole).scope == scope


@pytest.mark.parametrize("rows", [np.arange(0, 250, 3), np.arange(0, 250, 50)])
def test_behind_a_filter_relevance_flows_through_all_that_is_visible(rows: np.ndarray) -> None:
    held, query = vectors(250), vectors(1, 9)[0]
    passable = np.flatnonzero(np.arange(250) % 7 != 1)
    rows = np.intersect1d(rows, passable)
    whole, diffusion = gallery(held), Diffusion(damping=0.8, sure=0.0)
    ranking = replace(rank(query, whole, rows), passable=passable)
    expected = obvious(query, held, passable, diffusion)[np.searchsorted(passable, rows)]
    result = diffusion(query, ranking, whole)
    reached = expected > 0
    shown = result.reported(result.scores[reached])
    np.testing.assert_allclose(shown, expected[reached] / expected.max(), rtol=2e-3, atol=1e-9)
    assert result.scope == "collection"


def test_a_filter_that_follows_the_clusters_keeps_relevance_inside() -> None:
    held, query = vectors(250), vectors(1, 9)[0]
    centres = 1.5 * np.random.default_rng(0).standard_normal((6, 12))
    nearest = np.linalg.norm(held[:, None] - centres, axis=2).argmin(axis=1)
    rows, whole = np.flatnonzero(nearest < 2), gallery(held)
    graph, _ = whole.neighbourhood.covering(whole)
    across = np.arange(0, 250, 3)
    everything = np.arange(250)
    assert flow_rows(graph, rows, everything) is rows
    assert flow_rows(graph, across, everything) is everything
    assert flow_rows(graph, across, None) is across
    assert not len(flow_rows(graph, across[:0], everything))
    ranking = rank(query, whole, rows)
    inside = Diffusion(damping=0.8, sure=0.0)(query, replace(ranking, passable=everything), whole)
    expected = obvious(query, held, rows, Diffusion(damping=0.8, sure=0.0))
    reached = expected > 0
    np.testing.assert_allclose(
        inside.reported(inside.scores[reached]), expected[reached] / expected.max(), rtol=2e-3
    )


def test_edges_to_images_that_are_not_visible_do_not_decide_where_relevance_flows() -> None:
    """Two far clusters, the first of which has many images that are not visible: the filter is the rest of it."""
    held = vectors(250)
    held[:125] += 50.0
    whole = gallery(held)
    graph, _ = whole.neighbourhood.covering(whole)
    rows = np.arange(0, 125, 4)
    visible = np.union1d(rows, np.arange(125, 250))
    assert flow_rows(graph, rows, visible) is rows
    everything = np.arange(250)
    assert flow_rows(graph, rows, everything) is everything


def test_images_that_are_not_visible_pass_no_relevance_on() -> None:
    """Behind a filter too: what is neither listed nor passable may be anything."""
    held, query = vectors(300), vectors(1, 9)[0]
    visible = np.flatnonzero(np.arange(300) % 4)
    rows = visible[::3]
    whole = gallery(held)
    swapped = held.copy()
    swapped[::4] = vectors(75, 77)
    other = Gallery((swapped,), whole.ids, (), whole.neighbourhood)
    first, second = (
        Diffusion()(query, replace(rank(query, each, rows), passable=visible), each).scores
        for each in (whole, other)
    )
    np.testing.assert_array_equal(first, second)


def test_images_added_since_the_snapshot_are_found() -> None:
    held = vectors(300)
    late = gallery(held, linked=280)
    query = held[290] + np.float32(0.01)
    result = Diffusion()(query, rank(query, late), late)
    assert np.argmax(result.scores) == 290
    on_top = np.argsort(-result.scores)[:60]
    assert (on_top >= 280).sum() >= 2


@pytest.mark.parametrize("copies", [2, 5, 6, 8, 9, 20])
def test_copies_of_one_image_are_not_out_of_reach(copies: int) -> None:
    """Their fifth neighbour is a copy too, and as far as nothing: that must not cut them off from the query."""
    held = np.concatenate([vectors(300), np.repeat(vectors(1, 8), copies, axis=0)])
    whole, query = gallery(held), vectors(1, 8)[0] + np.float32(0.05)
    result = Diffusion()(query, rank(query, whole), whole)
    assert np.argsort(-result.scores)[:copies].min() >= 300


def test_images_added_in_great_number_are_found_before_their_neighbours_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(knn_graph, "MAX_COMPARISONS", 0)
    held = vectors(300)
    late, query = gallery(held, linked=250), held[290] + np.float32(0.01)
    result = Diffusion()(query, rank(query, late), late)
    assert np.argmax(result.scores) == 290


def test_flow_through_few_nodes_keeps_the_first_answers() -> None:
    held = vectors(500)
    whole, query = gallery(held), vectors(1, 5)[0]
    ranking = rank(query, whole)
    everything = Diffusion()(query, ranking, whole).scores
    few = Diffusion(nodes=200)(query, ranking, whole).scores
    first = np.argsort(-everything)[:10]
    assert len(np.intersect1d(first, np.argsort(-few)[:10])) >= 8


def test_a_long_chain_is_followed_no_farther_than_relevance_flows() -> None:
    turn = np.linspace(0, 5, 2000, dtype=np.float32)
    chain = np.stack([np.cos(turn), np.sin(turn), np.cos(2 * turn), np.sin(2 * turn)], axis=1)
    whole = gallery(chain)
    ranking = rank(chain[0], whole, np.arange(1, 2000))
    everything = Diffusion()(chain[0], ranking, whole).scores
    few = Diffusion(nodes=1500)(chain[0], ranking, whole).scores
    np.testing.assert_allclose(few, everything, rtol=1e-5)
    graph, _ = whole.neighbourhood.covering(whole)
    start = np.zeros(2000, np.float32)
    start[0] = 1.0
    assert len(Diffusion(nodes=1999).support(graph, start, np.ones(2000, bool))) <= 20 * 16 + 1


def obvious_support(
    diffusion: Diffusion, weights: np.ndarray, start: np.ndarray, passable: np.ndarray
) -> np.ndarray:
    """Nodes that relevance reaches, by passes over all nodes."""
    flow, support = start, np.flatnonzero(start)
    for _ in range(diffusion.steps):
        flow = (start + weights.T @ flow) * passable
        reached = np.flatnonzero(flow)
        if len(reached) > diffusion.nodes:
            return np.sort(np.argsort(-flow, kind="stable")[: diffusion.nodes])
        if len(reached) == len(support):
            return support
        support = reached
    return support


@pytest.mark.parametrize("nodes", [20, 60, 150, 399])
@pytest.mark.parametrize("sources", [0, 1, 5])
def test_flow_reaches_the_same_few_nodes_as_by_passes_over_all(nodes: int, sources: int) -> None:
    random = np.random.default_rng(nodes)
    graph, _ = gallery(vectors(400)).neighbourhood.covering(gallery(vectors(400)))
    start, passable = np.zeros(400, np.float32), random.random(400) < 0.7
    start[random.choice(400, sources, replace=False)] = random.random(sources, np.float32)
    for steps in (1, 2, 5):
        diffusion = Diffusion(nodes=nodes, steps=steps)
        expected = obvious_support(diffusion, graph.weights.toarray(), start, passable)
        np.testing.assert_array_equal(diffusion.support(graph, start, passable), expected)


def test_finds_along_a_chain_what_is_unlike_the_query() -> None:
    """Two half circles: the far end of the query's own lies farther away than the middle of the other."""
    angle = np.linspace(0, np.pi, 150)
    one = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    other = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    noise = 0.03 * np.random.default_rng(3).standard_normal((300, 2))
    moons = (np.concatenate([one, other]) + noise).astype(np.float32)
    lifted = np.concatenate([moons, np.cos(2 * moons), np.sin(2 * moons)], axis=1).astype(np.float32)
    whole = gallery(lifted)
    rows = np.arange(1, 300)
    ranking = rank(lifted[0], whole, rows)
    precision = {}
    for method in ("none", "diffusion"):
        scores = rerank.get(method)(lifted[0], ranking, whole).scores
        precision[method] = (rows[np.argsort(-scores)[:149]] < 150).mean()
    assert precision["diffusion"] > precision["none"] + 0.1


@pytest.mark.parametrize(
    "wrong", [{"damping": 1.0}, {"steps": 0}, {"nodes": 0}, {"local": 10_000}, {"damping": "x"}]
)
def test_wrong_values_are_refused(wrong: dict) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Diffusion(**wrong)


def test_auto_is_diffusion_and_eprf() -> None:
    assert rerank.get("auto").name == rerank.resolve_name("auto") == "diffusion-eprf"
    assert rerank.resolve_name("eprf") == "eprf"


@pytest.mark.parametrize("scale", [1.0, 7.0])
@pytest.mark.parametrize("passable", [None, np.delete(np.arange(300), [5, 6])])
def test_vectors_compared_as_they_are_are_read_once(passable: np.ndarray | None, scale: float) -> None:
    """Distances within a plain space follow from those of the list, unless relevance flows through others."""
    held, query = np.float32(scale) * vectors(300), np.float32(scale) * vectors(1, 9)[0]
    plain = whitening.plain_space(12)
    identity = whitening.Space(plain.centre, np.eye(12, dtype=np.float32))
    rows = np.delete(np.arange(300), 5) if passable is None else passable[::3]
    squared = []
    for space in (plain, identity):
        whole = Gallery((held,), np.arange(300), (), Neighbourhood(knn.find_neighbours(held, space)))
        listed = replace(rank(query, whole, rows), passable=passable)
        squared.append(QueryList(query, listed, whole).graph_distances()[1])
    np.testing.assert_allclose(squared[0], squared[1], atol=2e-5)
    assert np.isinf(squared[0][5])
    assert np.isfinite(squared[0]).sum() == (299 if passable is None else len(passable))


@pytest.mark.parametrize("rows", [np.arange(300), np.arange(0, 300, 4)])
def test_mutual_neighbours_join_the_logarithm_of_the_flow(rows: np.ndarray) -> None:
    held = vectors(301)
    searched, query = gallery(held[:300]), held[300]
    ranking = rank(query, searched, rows)
    alone = Diffusion(sure=0.0)(query, ranking, searched).scores
    both = Diffusion(sure=0.0, mutual=3.0)(query, ranking, searched).scores
    mutual = rerank.get("k-reciprocal", M=200)(query, ranking, searched).scores
    closeness = np.where(mutual >= 1.0, mutual - 1.0, 0.0)
    assert 0 < np.count_nonzero(closeness) <= 200
    expected = alone + 3.0 * closeness
    np.testing.assert_allclose(both, expected - expected.max(), atol=1e-5)
    kept = Diffusion(mutual=3.0, sure=1.0)(query, ranking, searched).scores
    assert np.argmax(kept) == np.argmin(ranking.distances)


def test_mutual_neighbours_of_no_image_or_one() -> None:
    held = vectors(2)
    for rows in (np.arange(0), np.arange(1)):
        ranking = rank(held[1], gallery(held), rows)
        assert len(Diffusion(mutual=3.0)(held[1], ranking, gallery(held)).scores) == len(rows)
