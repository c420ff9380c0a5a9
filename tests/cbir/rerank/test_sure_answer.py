"""The first answer of diffusion against a slow rule over the sorted distances."""

import numpy as np
import pytest

from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import rank
from cbir.rerank.backend import Backend, NeedsFullList
from cbir.rerank.diffusion import Diffusion
from cbir.rerank.sure_answer import keep_sure_first


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


@pytest.mark.parametrize("count", [1, 4])
def test_few_images_are_never_sure(count: int) -> None:
    held = clusters(count, 0)
    gallery = Gallery((held,), np.arange(count))
    scores = -np.arange(count, dtype=float)
    backend = Backend(held[-1], rank(held[-1], gallery), gallery)
    assert keep_sure_first(backend, np.arange(count), scores, 0.9) is scores


def test_a_copy_of_the_query_is_sure_and_five_copies_are_not() -> None:
    held = clusters(50, 2)
    for copies, kept in ((1, True), (4, True), (5, False)):
        images = held.copy()
        images[10 : 10 + copies] = images[10]
        gallery = Gallery((images,), np.arange(50))
        backend = Backend(images[10], rank(images[10], gallery), gallery)
        scores = -np.arange(50, dtype=float)
        assert (int(np.argmax(keep_sure_first(backend, np.arange(50), scores, 0.9))) == 10) is kept


def test_rows_without_the_nearest_need_the_full_list() -> None:
    held = clusters(50, 2)
    gallery = Gallery((held,), np.arange(50))
    ranking = rank(held[10], gallery)
    backend = Backend(held[10], ranking, gallery)
    rows = np.arange(11, 50)
    with pytest.raises(NeedsFullList):
        keep_sure_first(backend, rows, -np.arange(39.0), 0.9)
