"""The first answer of diffusion against a slow rule over the sorted distances."""

import numpy as np
import pytest

from cbir.gallery.gallery import Gallery, rank
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.query_list import QueryList, keep_sure_first, place_sure_first


def clusters(count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = random.standard_normal((6, 12))
    return (centres[random.integers(0, 6, count)] + random.standard_normal((count, 12))).astype(np.float32)


def slow(distances: np.ndarray, scores: np.ndarray, sure: float) -> list[int]:
    """The order: the nearest first where it is nearer than `sure` times the fifth distance."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    by_distance = sorted(range(len(distances)), key=lambda index: distances[index])
    if len(distances) >= 5 and distances[by_distance[0]] < sure * distances[by_distance[4]]:
        order.remove(by_distance[0])
        order.insert(0, by_distance[0])
    return order


def test_the_nearest_is_first_where_it_is_sure_and_the_others_keep_their_order() -> None:
    held = clusters(120, 0)
    gallery = Gallery((held,), np.arange(len(held)))
    moved = 0
    for query in clusters(30, 1):
        ranking = rank(query, gallery)
        plain = Diffusion(sure=0.0)(query, ranking, gallery).scores
        guarded = Diffusion()(query, ranking, gallery).scores
        assert guarded.max() == 0.0
        assert np.argsort(-guarded, kind="stable").tolist() == slow(ranking.distances, plain, 0.85)
        moved += int(np.argmax(plain) != np.argmax(guarded))
    assert 0 < moved < 30


def test_the_nearest_is_placed_first_on_any_scale_of_scores() -> None:
    held = clusters(120, 0)
    gallery = Gallery((held,), np.arange(len(held)))
    moved = 0
    for number, query in enumerate(clusters(30, 1)):
        ranking = rank(query, gallery)
        scores = np.random.default_rng(number).standard_normal(len(held)) * 5.0 + 20.0
        query_list = QueryList(query, ranking, gallery)
        rows, placed = place_sure_first(query_list, ranking.rows, scores, 0.85)
        order = slow(ranking.distances, scores, 0.85)
        assert rows[np.argsort(-placed, kind="stable")].tolist() == order
        nearest = int(np.argmin(ranking.distances))
        refused = place_sure_first(query_list, ranking.rows, scores, 0.85, np.array([nearest]))[1]
        assert refused.tolist() == scores.tolist()
        kept = np.flatnonzero(np.arange(len(held)) != nearest)
        rows, placed = place_sure_first(query_list, kept, scores[kept], 0.85)
        if order[0] == nearest:
            assert rows[np.argmax(placed)] == nearest
            assert len(rows) == len(held)
            moved += 1
        else:
            assert rows is kept
    assert 0 < moved < 30


def test_the_nearest_is_placed_first_from_any_place_and_stays_there() -> None:
    held = clusters(120, 0)
    held[7] = held[0] + np.float32(1e-3)
    gallery = Gallery((held,), np.arange(len(held)))
    query_list = QueryList(held[7], rank(held[7], gallery), gallery)
    for place in (0, 60, 119):
        scores = np.roll(np.linspace(3.0, -3.0, 120), 7 - place)
        rows, placed = place_sure_first(query_list, query_list.ranking.rows, scores, 0.85)
        others = rows != 7
        assert np.argmax(placed) == 7
        assert placed[others].tolist() == scores[others].tolist()
        assert bool(placed[7] == scores[7]) is (place == 0)


@pytest.mark.parametrize("count", [1, 4])
def test_few_images_are_never_sure(count: int) -> None:
    held = clusters(count, 0)
    gallery = Gallery((held,), np.arange(count))
    scores = -np.arange(count, dtype=float)
    query_list = QueryList(held[-1], rank(held[-1], gallery), gallery)
    assert keep_sure_first(query_list, scores, 0.9) is scores


def test_a_copy_of_the_query_is_sure_and_five_copies_are_not() -> None:
    held = clusters(50, 2)
    for copies, kept in ((1, True), (4, True), (5, False)):
        images = held.copy()
        images[10 : 10 + copies] = images[10]
        gallery = Gallery((images,), np.arange(50))
        query_list = QueryList(images[10], rank(images[10], gallery), gallery)
        scores = -np.arange(50, dtype=float)
        assert (int(np.argmax(keep_sure_first(query_list, scores, 0.9))) == 10) is kept
