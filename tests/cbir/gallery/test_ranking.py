import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cbir.gallery.gallery import Gallery, bottom_k, rank, similarities, top_k

SCORES = st.sampled_from([-2.5, -1.0, -0.0, 0.0, 1e-30, 0.5, 1.0, 3e8])


def gallery(vectors: np.ndarray, *cuts: int) -> Gallery:
    blocks = np.split(np.ascontiguousarray(vectors, np.float32), cuts)
    return Gallery(tuple(blocks), np.arange(len(vectors), dtype=np.int64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(data=st.data(), size=st.integers(0, 40))
def test_best_is_a_stable_sort(dtype, data, size):
    scores = data.draw(arrays(dtype, size, elements=SCORES | st.floats(-5, 5, width=32)))
    count = data.draw(st.integers(-1, size + 2))
    expected = sorted(range(size), key=lambda place: (-scores[place], place))
    assert top_k(scores, count).tolist() == expected[: max(count, 0)]
    assert bottom_k(scores, count).tolist() == expected[::-1][: max(count, 0)]


def test_best_of_many_equal_scores_takes_the_first():
    scores = np.repeat(np.float32([1.0, 2.0]), 5000)
    assert top_k(scores, 5002).tolist() == [*range(5000, 10_000), 0, 1]


def test_similarities_follow_the_definition():
    assert similarities(np.float32([3.0, 1.0, 2.0])).tolist() == [0.0, 1.0, 0.5]


@pytest.mark.parametrize("count", [1, 3])
def test_equal_distances_are_all_similar(count):
    assert similarities(np.full(count, 2.0, np.float32)).tolist() == [1.0] * count


def test_no_images_make_an_empty_list():
    ranking = rank(np.ones(4, np.float32), gallery(np.empty((0, 4))))
    assert len(ranking) == 0
    assert ranking.similarities.shape == (0,)


def test_distances_match_the_obvious_form():
    random = np.random.default_rng(1)
    vectors = random.standard_normal((3000, 17)).astype(np.float32)
    query = vectors[7] + np.float32(0.5)
    rows = np.delete(np.arange(3000), [7, 1500, 2999])
    ranking = rank(query, gallery(vectors, 1000, 1000, 2500), rows)
    expected = np.linalg.norm(vectors[rows].astype(float) - query, axis=1)
    assert ranking.rows.tolist() == rows.tolist()
    np.testing.assert_allclose(ranking.distances, expected, rtol=1e-5)


def test_an_equal_vector_has_distance_zero():
    vectors = np.random.default_rng(2).standard_normal((50, 8)).astype(np.float32) + 100
    assert rank(vectors[3], gallery(vectors)).distances[3] == 0.0


@pytest.mark.parametrize("offset", [0.0, 0.25])
def test_a_collection_of_one_image_many_times_is_all_similar(offset):
    one = np.random.default_rng(3).standard_normal(168).astype(np.float32)
    copies = gallery(np.tile(one, (5003, 1)), 1001)
    assert np.all(rank(one + np.float32(offset), copies).similarities == 1.0)
