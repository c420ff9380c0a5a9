"""What searches of a view read: the graph of its snapshot, whatever others have added since; nothing keeps a view."""

import gc
from pathlib import Path
from weakref import ref

import numpy as np
import pytest

from cbir import settings
from cbir.search import Request, Searcher, Stopwatch, view_vectors
from cbir.search.view_vectors import ViewVectors
from cbir.store.index.port import IndexScope
from cbir.store.records.filter_conditions import parse_filters
from tests.cbir.search.drawn_vectors import create_collection, entry


def test_a_search_under_way_reads_the_graph_after_another_has_extended_it(tmp_path: Path) -> None:
    collection = create_collection(tmp_path / "collection")
    with collection.writer() as writer:
        writer.compact()
    earlier = ViewVectors(collection).for_search()
    images = len(earlier.view.gallery)
    added = np.random.default_rng(5).standard_normal((30, 6)).astype(np.float32)
    with collection.writer() as writer:
        writer.add([entry(collection, 1000 + number, vector) for number, vector in enumerate(added)])
    image_id, request = collection.page(0, 20)[7][1].image_id, Request(rerank="diffusion")
    whole = Searcher(collection, settings.load(device="cpu"))
    few = Searcher(collection, settings.load(device="cpu", indexed_candidates=40, indexed_sample=40))
    few.vectors.whole_up_to = 0
    before = few.by_id(image_id, request, Stopwatch()).results
    whole.by_id(image_id, request, Stopwatch())  # joins the added images with the graph
    view_vectors._graphs.clear()  # as if nobody had read it before
    for vectors in (earlier, few.vectors.of_view):
        graph = vectors.graph()
        assert graph is not None
        assert len(graph.numbers) == len(graph.starts) - 1 == images
        assert graph.ends.max() < images
    assert few.by_id(image_id, request, Stopwatch()).results == before


@pytest.mark.parametrize("method", ["none", "eprf", "diffusion"])
def test_no_search_keeps_the_snapshot_that_a_new_one_replaces(tmp_path: Path, method: str) -> None:
    """The vectors of an erased patient leave memory, and the GPU, with it."""
    collection = create_collection(tmp_path / "collection")
    image_id, request = collection.page(0, 20)[7][1].image_id, Request(rerank=method, where=["side=left"])
    searcher = Searcher(collection, settings.load(device="cpu", indexed_candidates=40, indexed_sample=40))
    searcher.vectors.whole_up_to = 0
    gc.collect()
    gc.disable()
    try:
        searcher.by_id(image_id, request, Stopwatch())
        before = ref(collection.view().snapshot)
        with collection.writer() as writer:
            writer.compact()
        collection.view()
        assert before() is None
    finally:
        gc.enable()


def test_a_sample_is_as_large_as_can_be_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_vectors, "LEFT_OUT", 5)
    vectors = ViewVectors(create_collection(tmp_path / "collection"))
    narrow = IndexScope(where=parse_filters(["side=right"]))
    before = vectors.sample(60, narrow)[0]
    for count, scope in ((20, IndexScope()), (60, narrow), (200, IndexScope()), (1000, narrow)):
        numbers, sampled = vectors.sample(count, scope)
        assert len(numbers) == min(count, vectors.count(scope))
        assert (np.diff(numbers) > 0).all()
        assert np.array_equal(vectors.within(numbers, scope), numbers)
        assert np.array_equal(vectors.vectors(numbers)[1], sampled)
    assert np.array_equal(vectors.sample(60, narrow)[0], before)
