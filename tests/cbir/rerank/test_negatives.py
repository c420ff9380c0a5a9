import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.gallery.gallery import top_k
from cbir.rerank.query_list import draw_negatives

QUERY = np.arange(5, dtype=np.float32)


@given(
    scores=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1, width=32), max_size=80),
    P=st.integers(1, 15),
    sets=st.integers(1, 5),
    lowest=st.floats(0, 1),
)
def test_negatives_are_different_images_from_the_end_of_the_list(scores, P, sets, lowest):
    scores = np.array(scores, np.float32)
    negative_sets = draw_negatives(QUERY, scores, P=P, sets=sets, lowest=lowest, seed=0)
    order = top_k(scores, len(scores)).tolist()
    size = max(P, round(lowest * len(scores)))
    pool = set(order[max(P, len(scores) - size) :])
    assert negative_sets.shape == (sets, min(P, max(len(scores) - P, 0)))
    for row in negative_sets.tolist():
        assert len(set(row)) == len(row)
        assert set(row) <= pool


def test_every_image_of_the_pool_is_drawn_equally_often():
    scores = np.linspace(1, 0, 100, dtype=np.float32)
    negative_sets = draw_negatives(QUERY, scores, P=3, sets=20_000, lowest=0.1, seed=0)
    counts = np.bincount(negative_sets.ravel(), minlength=100)
    assert counts[:90].sum() == 0
    assert np.abs(counts[90:] / 6000 - 1).max() < 0.05  # 4 standard deviations


@pytest.mark.parametrize(
    ("images", "lowest", "size"), [(149, 0.1, 15), (144, 0.1, 14), (200, 0.9, 180), (8, 1, 5)]
)
def test_the_pool_is_the_rounded_share_of_the_list(images, lowest, size):
    """Except the P best, and all of it can be drawn."""
    scores = np.linspace(1, 0, images, dtype=np.float32)
    drawn = draw_negatives(QUERY, scores, P=3, sets=2000, lowest=lowest, seed=0)
    assert np.unique(drawn).tolist() == list(range(images - size, images))


def test_the_draw_depends_on_the_query_and_the_seed_alone():
    scores = np.random.default_rng(0).random(1000, dtype=np.float32)
    one = draw_negatives(QUERY, scores, P=6, sets=20, lowest=0.1, seed=0)
    assert np.array_equal(one, draw_negatives(QUERY.copy(), scores.copy(), P=6, sets=20, lowest=0.1, seed=0))
    assert not np.array_equal(one, draw_negatives(QUERY + 1, scores, P=6, sets=20, lowest=0.1, seed=0))
    assert not np.array_equal(one, draw_negatives(QUERY, scores, P=6, sets=20, lowest=0.1, seed=1))
    assert len({tuple(row) for row in one.tolist()}) == 20


@pytest.mark.parametrize("order", ["reversed", "shuffled"])
def test_the_draw_follows_the_list_not_the_rows(order):
    scores = np.linspace(0, 1, 500, dtype=np.float32)
    moved = np.arange(500)[::-1] if order == "reversed" else np.random.default_rng(0).permutation(500)
    one = draw_negatives(QUERY, scores, P=6, sets=20, lowest=0.1, seed=0)
    other = draw_negatives(QUERY, scores[moved], P=6, sets=20, lowest=0.1, seed=0)
    assert np.array_equal(one, moved[other])
