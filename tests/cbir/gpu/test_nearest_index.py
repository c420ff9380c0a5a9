"""FAISS indexes behind a gallery, on the processor: the class that holds them on a GPU, where there is one."""

from dataclasses import replace

import faiss
import numpy as np
import pytest
from cbir.gpu.nearest_index import MOST_FETCHED, NearestIndex

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import rank, top_k
from cbir.hardware.device import faiss_gpu_problem
from cbir.rerank.top_hits import rerank_top
from tests.cbir.gpu.test_accelerator import clustered

DEVICES = ["cpu"] if faiss_gpu_problem() else ["cpu", "cuda"]
EVERYWHERE = pytest.mark.parametrize("device", DEVICES)


def gallery_of(vectors: np.ndarray) -> Gallery:
    return Gallery((np.ascontiguousarray(vectors),), np.arange(len(vectors)))


@pytest.fixture(scope="module")
def gallery() -> Gallery:
    return gallery_of(clustered(8000))


def nearest(ranking, count: int) -> list[int]:
    return ranking.rows[top_k(-ranking.distances, count)].tolist()


@EVERYWHERE
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kept", [None, "all but one", "half", "few", "none"])
def test_a_flat_index_finds_the_nearest_that_pass(gallery, device, seed, kept):
    query, passes = clustered(1, seed=40 + seed)[0], np.random.default_rng(seed).random(8000)
    rows = {
        None: None, "all but one": np.delete(np.arange(8000), nearest(rank(query, gallery), 1)),
        "half": np.flatnonzero(passes < 0.5), "few": np.flatnonzero(passes < 0.005), "none": np.arange(0),
    }[kept]  # fmt: skip
    head = NearestIndex("flat", device).head(query, gallery, rows, 100)
    exact = rank(query, gallery, rows)
    assert nearest(head, 100) == nearest(exact, 100)
    positions = np.searchsorted(exact.rows, head.rows)
    np.testing.assert_allclose(head.distances, exact.distances[positions], rtol=1e-4)
    assert (np.diff(head.rows) > 0).all()


@EVERYWHERE
def test_deleting_the_nearest_makes_room_for_the_next(gallery, device):
    """More and more of the nearest are deleted: fetched beyond them until nothing but comparing all is left."""
    index, query = NearestIndex("flat", device), clustered(1, seed=5)[0]
    order = nearest(rank(query, gallery), 8000)
    for deleted in (0, 1, 10, 100, 1500, MOST_FETCHED, 5000, 7990):
        rows = np.sort(np.array(order[deleted:]))
        assert nearest(index.head(query, gallery, rows, 10), 10) == order[deleted : deleted + 10]


@EVERYWHERE
def test_an_inverted_file_finds_most_and_only_what_passes(gallery, device):
    index, passes = NearestIndex("ivf", device), np.flatnonzero(np.random.default_rng(1).random(8000) < 0.5)
    result = 0
    for seed in range(20):
        query = clustered(1, seed=seed)[0]
        head = index.head(query, gallery, passes, 20)
        assert np.isin(head.rows, passes).all()
        result += len(np.intersect1d(nearest(head, 20), nearest(rank(query, gallery, passes), 20)))
    assert result >= 0.95 * 20 * 20


@EVERYWHERE
@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_additions_are_added_and_an_older_view_does_not_see_them(device, kind):
    vectors = clustered(3000)
    older = gallery_of(vectors[:2900])
    newer = replace(older, blocks=(*older.blocks, vectors[2900:]), ids=np.arange(3000))
    index = NearestIndex(kind, device)
    index.head(vectors[0], older, None, 5)
    built = index._index
    assert nearest(index.head(vectors[2950], newer, None, 5), 1) == [2950]
    assert (index.head(vectors[2950], older, None, 5).rows < 2900).all()
    assert index._index is built
    assert built.ntotal == 3000
    another = gallery_of(clustered(2000, seed=9))
    assert nearest(index.head(another.blocks[0][7], another, None, 5), 1) == [7]
    assert index._index is not built


@EVERYWHERE
def test_copies_of_an_image_are_in_the_order_of_their_rows(device):
    vectors = clustered(4000)
    vectors[500:1200] = vectors[3]
    head = NearestIndex("flat", device).head(vectors[3], gallery_of(vectors), None, 50)
    assert nearest(head, 50) == [3, *range(500, 549)]
    alike = gallery_of(np.tile(vectors[3], (3000, 1)))
    assert nearest(NearestIndex("flat", device).head(vectors[3], alike, None, 5), 5) == [0, 1, 2, 3, 4]


@EVERYWHERE
@pytest.mark.parametrize("kind", ["flat", "ivf"])
@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_few_images(device, kind, count):
    gallery, query = gallery_of(clustered(50)[:count]), clustered(1, seed=2)[0]
    head = NearestIndex(kind, device).head(query, gallery, None, 100)
    assert nearest(head, 100) == nearest(rank(query, gallery), 100)


# pearson adds a correlation to similarities, whose scale depends on a sample here.
OF_THE_TOP = [name for name in rerank.names() if rerank.get(name).depth is not None and name != "pearson"]


@pytest.mark.parametrize("name", OF_THE_TOP)
def test_rerankers_of_the_top_order_as_they_do_over_the_whole_list(gallery, name):
    query, member = clustered(1, seed=6)[0], rerank.get(name)
    head = NearestIndex("flat", "cpu").head(query, gallery, None, member.depth + 50)
    hits = rerank_top(member, query, head, gallery, 50)
    ranking = rank(query, gallery)
    assert hits.rows.tolist() == top_k(member(query, ranking, gallery).scores, 50).tolist()
    assert ((head.similarities >= 0) & (head.similarities <= 1)).all()


@pytest.mark.skipif(not faiss_gpu_problem(), reason="this machine has a GPU that faiss can use")
def test_a_gpu_that_is_not_there_is_said(gallery):
    expected_hits = "faiss-gpu" if not hasattr(faiss, "StandardGpuResources") else "finds no GPU"
    with pytest.raises(InvalidInput, match=expected_hits):
        NearestIndex("flat", "cuda").head(clustered(1)[0], gallery, None, 5)
