"""Candidates of large collections: an index of the first rows against comparing all."""

from dataclasses import replace

import numpy as np
import pytest
from cbir.gallery.candidate_list import CandidateLimits, rank_candidates

from cbir.gallery.candidate_index import FEW, CandidateIndex, build_candidate_index
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import rank, top_k
from tests.cbir.gallery.test_knn import clustered

LIMITS = CandidateLimits(exact_limit=100, candidates=50, indexed=50, probes=20)


@pytest.fixture(scope="module")
def gallery() -> Gallery:
    """5,000 rows, of which the last 200 were added after the index was built."""
    vectors = clustered(5000)
    blocks = (vectors[:4800], vectors[4800:])
    return Gallery(
        blocks, np.arange(5000), candidates=build_candidate_index(Gallery(blocks[:1], np.arange(4800)))
    )


def nearest(query: np.ndarray, gallery: Gallery, rows: np.ndarray | None, count: int) -> np.ndarray:
    exact = rank(query, gallery, rows)
    return exact.rows[top_k(-exact.distances, count)]


FILTERS = {
    "all": None,
    "one left out": np.delete(np.arange(5000), 7),
    "many left out": np.flatnonzero(np.arange(5000) % (5000 // (2 * FEW))),
    "a third": np.arange(0, 5000, 3),
    "few": np.arange(0, 5000, 40),
    "added alone": np.arange(4800, 5000),
}


@pytest.mark.parametrize("name", FILTERS)
def test_nearly_all_of_the_nearest_are_found_and_nothing_else(gallery: Gallery, name: str) -> None:
    rows, hits = FILTERS[name], []
    for query in clustered(20, seed=3):
        ranking, scope = rank_candidates([query], gallery, rows, LIMITS, 10)
        assert scope is not None
        assert scope.startswith("the best 50 of")
        assert len(ranking) < 300
        assert (np.diff(ranking.rows) > 0).all()
        assert rows is None or np.isin(ranking.rows, rows).all()
        np.testing.assert_allclose(ranking.distances, gallery.exact_distances(query, ranking.rows))
        hits.append(len(np.intersect1d(ranking.rows, nearest(query, gallery, rows, 50))) / 50)
    assert np.mean(hits) > 0.95


def test_without_an_index_or_below_the_limit_all_are_compared(gallery: Gallery) -> None:
    query = clustered(1, seed=4)[0]
    plain = replace(gallery, candidates=None)
    few = np.arange(90)
    for searched, rows in ((gallery, few), (plain, few)):
        assert rank_candidates([query], searched, rows, LIMITS, 10)[1] is None
    ranking, scope = rank_candidates([query], plain, None, LIMITS, 10)
    assert scope == "the best 50 of 5000 and a sample of 50"
    assert np.isin(nearest(query, plain, None, 50), ranking.rows).all()


def test_several_queries_and_judged_images(gallery: Gallery) -> None:
    queries, judged = clustered(3, seed=5), np.array([1, 4990])
    rows = np.delete(np.arange(5000), 1)
    ranking, _ = rank_candidates(list(queries), gallery, rows, LIMITS, 10, judged)
    assert 4990 in ranking.rows
    assert 1 not in ranking.rows
    for query in queries:
        assert np.isin(nearest(query, gallery, rows, 5), ranking.rows).all()
    distances = np.min([gallery.exact_distances(query, ranking.rows) for query in queries], axis=0)
    np.testing.assert_allclose(ranking.distances, distances)


def test_more_lists_are_read_where_a_filter_leaves_little(gallery: Gallery) -> None:
    index, allowed = gallery.candidates, np.arange(0, 4800, 400)
    assert index is not None
    for query in clustered(5, seed=6):
        assert index.nearest(query, 12, 1, allowed).tolist() == allowed.tolist()
        assert len(index.nearest(query, 12, 1)) >= 12
    assert not len(index.nearest(query, 5, 1, allowed[:0]))


def test_equal_vectors_give_an_equal_index(gallery: Gallery) -> None:
    again = build_candidate_index(Gallery(gallery.blocks[:1], np.arange(4800)))
    for query in clustered(5, seed=7):
        first, second = (each.nearest(query, 100, 4) for each in (gallery.candidates, again))
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("count", [1, 2, 40])
def test_hardly_any_images(count: int) -> None:
    vectors = clustered(count)
    index: CandidateIndex = build_candidate_index(Gallery((vectors,), np.arange(count)))
    assert index.nearest(vectors[0], 100, 1).tolist() == list(range(count))


def test_images_all_alike() -> None:
    index = build_candidate_index(Gallery((np.ones((500, 10), np.float32),), np.arange(500)))
    assert len(index.nearest(np.ones(10, np.float32), 20, 1)) >= 20
