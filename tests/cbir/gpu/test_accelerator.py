"""The torch code, on a GPU or else the processor, against the numpy path: re-rankers, filters, additions, ties."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from cbir.gpu.accelerator import Accelerator, excluded_rows

from cbir import rerank
from cbir.gallery import knn
from cbir.gallery.gallery import Gallery
from cbir.gallery.live_graph import Neighbourhood
from cbir.gallery.ranking import rank, top_k

MEMBERS = pytest.mark.parametrize("name", rerank.names())
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLOSE = 2e-5  # scores nearer than this may change places: float32 sums in another order


def linked(vectors: np.ndarray, snapshot: int | None = None, projected: bool = False) -> Gallery:
    """A gallery whose first `snapshot` rows (all) are linked, with the others in a second block."""
    snapshot = len(vectors) if snapshot is None else snapshot
    blocks = (vectors[:snapshot], vectors[snapshot:]) if snapshot < len(vectors) else (vectors,)
    blocks = tuple(np.ascontiguousarray(block) for block in blocks)
    gallery = Gallery(blocks, np.arange(len(vectors)), projected=projected)
    result = knn.find_neighbours(vectors[:snapshot], gallery.space_of(np.arange(snapshot)))
    return replace(gallery, neighbourhood=Neighbourhood(result))


def clustered(n: int, d: int = 24, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = 1.5 * random.standard_normal((12, d))
    return (centres[random.integers(0, 12, n)] + random.standard_normal((n, d))).astype(np.float32)


@pytest.fixture(scope="module")
def gallery() -> Gallery:
    return linked(clustered(6000), snapshot=5900)


def both(gallery, name, query, rows=None, k=50, half=False, **parameters):
    """What the device finds, and the score of every row on the processor (-inf where it is not asked for)."""
    member = rerank.get(name, **parameters)
    result = Accelerator(DEVICE, half=half).search(query, gallery, rows, member, k)
    ranking = rank(query, gallery, rows)
    scores = np.full(len(gallery), -np.inf)
    scores[ranking.rows] = member(query, ranking, gallery).scores
    return result, scores


def assert_same(result, scores, k=50, close=CLOSE):
    expected = top_k(scores, k)
    assert len(np.unique(result.rows)) == k
    np.testing.assert_allclose(result.scores, scores[result.rows], atol=close)
    # The same order, but where scores are as close as the two ways of adding up differ.
    np.testing.assert_allclose(scores[result.rows], scores[expected], atol=close)
    if name_of(result) != "Flow":
        assert (np.diff(result.scores) <= 0).all()


def name_of(result) -> str:
    return type(result.reranked).__name__


@MEMBERS
@pytest.mark.parametrize("seed", range(3))
def test_the_same_answer_as_on_the_processor(gallery, name, seed):
    query = clustered(1, seed=100 + seed)[0]
    result, scores = both(gallery, name, query)
    assert_same(result, scores)
    np.testing.assert_allclose(result.distances, gallery.exact_distances(query, result.rows), rtol=1e-6)


@MEMBERS
@pytest.mark.parametrize("dimensions", [128, 1280])
def test_values_of_encoders_are_compared_as_they_are(name, dimensions):
    vectors = clustered(601, dimensions)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    gallery = linked(vectors[:-1], projected=True)
    assert gallery.space.projection is None
    assert_same(*both(gallery, name, vectors[-1]))


@MEMBERS
@pytest.mark.parametrize("kept", ["all but one", "three quarters"])
def test_filters_and_deletes(gallery, name, kept):
    rows = np.arange(6000)
    rows = (
        np.delete(rows, 17) if kept == "all but one" else rows[np.random.default_rng(2).random(6000) < 0.75]
    )
    result, scores = both(gallery, name, gallery.vectors(np.array([17]))[0] + np.float32(0.1), rows)
    assert np.isin(result.rows, rows).all()
    assert_same(result, scores)


@MEMBERS
def test_half_precision_finds_nearly_the_same(gallery, name):
    query = clustered(1, seed=7)[0]
    result, scores = both(gallery, name, query, half=True)
    assert len(np.intersect1d(result.rows, top_k(scores, 50))) >= 45
    assert result.scores.dtype in (np.float32, np.float64)


@MEMBERS
def test_more_answers_than_are_learnt_from(gallery, name):
    result, scores = both(gallery, name, clustered(1, seed=8)[0], k=3000)
    assert_same(result, scores, k=3000, close=5e-5)


@MEMBERS
def test_every_image_can_be_asked_for(name):
    gallery = linked(clustered(400))
    result, scores = both(gallery, name, clustered(1, seed=8)[0], k=1000)
    if result is not None:
        assert_same(result, scores, k=400)


def test_diffusion_through_a_part_of_the_graph(gallery):
    for seed in range(4):
        result, scores = both(gallery, "diffusion", clustered(1, seed=seed)[0], nodes=300, k=600)
        assert_same(result, scores, k=600, close=1e-4)


@MEMBERS
def test_images_all_alike_are_left_to_the_processor(name):
    alike = linked(np.tile(clustered(1)[0], (500, 1)))
    member = rerank.get(name)
    result = Accelerator(DEVICE, half=False).search(alike.blocks[0][0], alike, None, member, 20)
    assert result is None or name == "diffusion"


def test_copies_of_an_image_are_in_the_order_of_their_rows():
    vectors = clustered(3000)
    vectors[1000:1900] = vectors[5]
    result, scores = both(linked(vectors), "none", vectors[5] + np.float32(0.01), k=700)
    assert result.rows.tolist() == [5, *range(1000, 1699)]
    assert result.rows.tolist() == top_k(scores, 700).tolist()


def test_the_same_question_has_the_same_answer(gallery):
    accelerator, query = Accelerator(DEVICE), clustered(1, seed=3)[0]
    for name in rerank.names():
        first, again = (accelerator.search(query, gallery, None, rerank.get(name), 30) for _ in range(2))
        assert first.rows.tolist() == again.rows.tolist()
        assert first.scores.tolist() == again.scores.tolist()


def test_additions_are_followed_and_the_snapshot_is_not_sent_again():
    vectors = clustered(2200)
    smaller, larger = linked(vectors[:2000]), None
    accelerator = Accelerator(DEVICE, half=False)
    accelerator.search(vectors[0], smaller, None, rerank.get("none"), 5)
    kept = accelerator.vectors._blocks[0][1]
    larger = replace(smaller, blocks=(*smaller.blocks, vectors[2000:]), ids=np.arange(2200))
    for name in ("none", "diffusion"):
        result = accelerator.search(vectors[2100], larger, None, rerank.get(name), 5)
        assert result.rows[0] == 2100, name
    assert accelerator.vectors._blocks[0][1] is kept
    back = accelerator.search(vectors[2100], smaller, None, rerank.get("diffusion"), 5)
    assert (back.rows < 2000).all()


def test_no_images_and_narrow_filters_are_left_to_the_processor(gallery):
    query = clustered(1)[0]
    narrow = np.arange(1000)
    assert Accelerator(DEVICE).search(query, gallery, narrow, rerank.get("diffusion"), 5) is None
    unlinked = replace(gallery, neighbourhood=None)
    assert Accelerator(DEVICE).search(query, unlinked, None, rerank.get("diffusion"), 5) is None
    assert Accelerator(DEVICE).search(query, gallery, np.arange(0), rerank.get("none"), 5) is None


def test_values_beyond_half_precision_are_kept_whole():
    vectors = clustered(2000)
    vectors[3, 0] = 1e6
    accelerator = Accelerator(DEVICE, half=True)
    result = accelerator.search(vectors[3], linked(vectors), None, rerank.get("none"), 5)
    assert result.rows[0] == 3
    assert sum(copy.nbytes for _, copy, _ in accelerator.vectors._blocks) == vectors.nbytes


def test_outliers_do_not_overflow_the_svms():
    vectors = clustered(3000)
    vectors[:60] *= 60.0
    result, scores = both(linked(vectors), "eprf", vectors[3], k=40)
    assert np.isfinite(result.scores).all()
    assert_same(result, scores, k=40, close=1e-4)


@pytest.mark.parametrize("missing", [[], [0], [9], [0, 1, 2], [3, 7], [8, 9], list(range(9))])
def test_rows_left_out(missing):
    assert excluded_rows(np.setdiff1d(np.arange(10), missing), 10).tolist() == missing


def test_a_graph_without_edges():
    alone = linked(clustered(1))
    assert alone.neighbourhood.covering(alone)[0].weights.nnz == 0
    result = Accelerator(DEVICE).search(clustered(4)[3], alone, None, rerank.get("diffusion"), 5)
    assert result.rows.tolist() == [0]
    assert result.scores.tolist() == [0.0]


@MEMBERS
def test_a_query_far_beyond_half_precision(name):
    gallery = linked(clustered(2000))
    result, scores = both(gallery, name, gallery.blocks[0][5] * np.float32(1e5), half=True)
    assert result is None or np.isfinite(result.scores).all()
    if name == "none":
        assert len(np.intersect1d(result.rows, top_k(scores, 50))) >= 45


def test_svms_that_learn_from_images_beyond_half_precision():
    vectors = clustered(3000)
    vectors[2900:] *= 1e6
    result, _ = both(linked(vectors, snapshot=2900), "eprf", vectors[3], half=True)
    assert np.isfinite(result.scores).all()
    assert (result.rows < 2900).all()


@pytest.mark.parametrize("rows", [np.arange(0, 6000, 3), np.arange(5, 6000, 40)])
def test_diffusion_behind_a_filter(gallery, rows):
    """It flows through images that the filter leaves out, and not through those that are not visible."""
    query, passable = clustered(1, seed=31)[0], np.flatnonzero(np.arange(6000) % 7)
    rows = np.intersect1d(rows, passable)
    member = rerank.get("diffusion")
    found = Accelerator(DEVICE, half=False).search(query, gallery, rows, member, 30, passable)
    ranking = replace(rank(query, gallery, rows), passable=passable)
    scores = np.full(len(gallery), -np.inf)
    scores[rows] = member(query, ranking, gallery).scores
    assert found is not None
    assert_same(found, scores, 30)
