"""Whatever a GPU fails with: `auto` answers as the CPU does, with one warning; `cuda` says why in a line."""

import logging
import time
from contextvars import copy_context
from threading import Thread

import numpy as np
import pytest
import torch
from cbir.gpu import accelerator, device_search, faiss_index, nearest_index, torch_graph, torch_vectors
from cbir.gpu.device_search import DeviceSearch
from cbir.gpu.torch_vectors import TorchVectors

from cbir import rerank
from cbir.errors import DeviceFailed, QueryCancelled
from cbir.gallery.gallery import Gallery
from cbir.hardware import device_failure
from cbir.hardware.device import choose_device
from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from tests.cbir.gpu.device_errors import ERRORS, failing
from tests.cbir.gpu.test_accelerator import clustered, linked
from tests.cbir.gpu.test_search import asked_for

HERE = "cuda" if torch.cuda.is_available() else "cpu"
# Where a search through torch fails, and where one through FAISS does.
TORCH_PLACES = {
    "start": (accelerator, "TorchVectors"),
    "copy": (TorchVectors, "_uploaded"),
    "products": (TorchVectors, "products"),
    "selection": (torch, "topk"),
}
FAISS_PLACES = ("copy", "add", "search")


@pytest.fixture
def gpu(monkeypatch):
    """A GPU, or the processor under its name."""
    monkeypatch.setattr(device_search, "resolve_device", lambda name: "cpu" if name == "cpu" else "cuda")
    monkeypatch.setattr(device_search, "faiss_gpu_problem", lambda: None)
    monkeypatch.setattr(accelerator, "TorchVectors", lambda _, half: TorchVectors(HERE, False))
    monkeypatch.setattr(faiss_index, "_on_gpu", lambda index, kind: index)


def searcher(collection, device, index="exact"):
    made = Searcher(collection, Settings(device="cpu", index=index))
    made._ranking.whole.device = DeviceSearch(collection.folder, device, index, least=1)
    return made


def answer(collection, device, method, index="exact"):
    request = Request(k=15, rerank=method)
    found = searcher(collection, device, index).by_id(asked_for(collection), request, Stopwatch())
    return [(hit.image_id, hit.score, hit.distance) for hit in found.results], found.rerank


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("place", TORCH_PLACES)
def test_a_failure_of_torch_leads_to_the_answer_of_the_processor(
    collection, gpu, monkeypatch, caplog, place, error
):
    expected = answer(collection, "cpu", "eprf")
    monkeypatch.setattr(*TORCH_PLACES[place], failing(error))
    with caplog.at_level(logging.WARNING):
        assert answer(collection, "auto", "eprf") == expected
        assert answer(collection, "auto", "none") == answer(collection, "cpu", "none")
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert warnings[0].startswith("the GPU failed (search): ")
    assert "\n" not in warnings[0]
    assert device_failure.failure_count() == 1
    assert choose_device("auto").name == "cpu"
    with pytest.raises(
        DeviceFailed, match=r"^the GPU failed \(search\): .*; set device=cpu or auto"
    ) as raised:
        answer(collection, "cuda", "eprf")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", ["flat", "faiss-ivf"])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("place", FAISS_PLACES)
def test_a_failure_of_faiss_leads_to_the_answer_of_the_processor(
    collection, gpu, monkeypatch, caplog, place, error, kind
):  # fmt: skip
    expected = answer(collection, "cpu", "none", kind)

    def broken(index, _):
        return failing(error)() if place == "copy" else Wrapped(index, place, error)

    monkeypatch.setattr(faiss_index, "_on_gpu", broken)
    assert answer(collection, "auto", "none", kind) == expected
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
    with pytest.raises(DeviceFailed, match=r"^the GPU failed \(search\): .*; set device=cpu or auto"):
        answer(collection, "cuda", "none", kind)


class Wrapped:
    """An index of which one operation fails."""

    def __init__(self, index, place, error):
        self._index = index
        setattr(self, place, failing(error))

    def __getattr__(self, name):
        return getattr(self._index, name)


def test_the_reason_of_faiss_is_what_failed(gpu):
    said = r"cudaMalloc error out of memory \[2\]\)$"
    with pytest.raises(DeviceFailed, match=said), device_failure.device_failures("search"):
        failing("faiss")()


@pytest.mark.parametrize("setting", ["auto", "cpu"])
def test_faiss_on_the_processor_fails_by_itself(collection, monkeypatch, caplog, setting):
    """Without a GPU too: all images are compared, as without the index."""
    monkeypatch.setattr(device_search, "resolve_device", lambda name: "cpu")
    expected = [hit[0] for hit in answer(collection, "cpu", "none")[0]]
    monkeypatch.setattr(nearest_index.NearestIndex, "head", failing("host"))
    assert [hit[0] for hit in answer(collection, setting, "none", "flat")[0]] == expected
    assert "FAISS failed (search): MemoryError" in caplog.text
    assert device_failure.gpu_failure() is None
    assert device_failure.failure_count() == 0


class Partial:
    """An index on a GPU that stores what it is to add, and then has no room for the rest of its work."""

    def __init__(self, index, room):
        self._index, self._room = index, room

    def __getattr__(self, name):
        return getattr(self._index, name)

    def add(self, vectors):
        self._index.add(vectors)
        if vectors.nbytes > self._room:
            raise ERRORS["faiss"]()


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_an_index_that_took_a_part_is_built_again(gpu, monkeypatch, kind):
    gallery, query = Gallery((clustered(3000),), np.arange(3000)), clustered(1, seed=2)[0]
    expected = nearest_index.NearestIndex(kind, "cpu").head(query, gallery, None, 20)
    monkeypatch.setattr(nearest_index, "ADDED", (100_000, 10_000, 1000))
    monkeypatch.setattr(faiss_index, "_on_gpu", lambda index, _: Partial(index, 20_000))
    index = nearest_index.NearestIndex(kind, "cuda")
    assert index.head(query, gallery, None, 20).rows.tolist() == expected.rows.tolist()
    assert index._index.ntotal == 3000


def test_an_index_on_a_broken_gpu_is_not_freed(gpu, tmp_path, monkeypatch):
    """FAISS ends the process when it frees memory of a device that has failed."""
    monkeypatch.setattr(faiss_index, "_abandoned", [])
    gallery, query, member = Gallery((clustered(3000),), np.arange(3000)), clustered(1)[0], rerank.get("none")
    search = DeviceSearch(tmp_path, "auto", "flat", least=1)
    search.search(query, gallery, None, member, 5)
    kept = search._nearest._index
    monkeypatch.setattr(type(search._nearest), "_fetch", failing("sticky"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            device_search, "NearestIndex", lambda kind, device: None
        )  # no index on the processor either
        search.search(query, gallery, None, member, 5)
    assert faiss_index._abandoned == [kept]


def test_one_failure_ends_the_gpu_for_all_collections(gpu, tmp_path, monkeypatch):
    gallery, query, member = Gallery((clustered(3000),), np.arange(3000)), clustered(1)[0], rerank.get("none")
    first, second = (DeviceSearch(tmp_path, "auto", least=1) for _ in range(2))
    assert second.search(query, gallery, None, member, 5) is not None
    with monkeypatch.context() as patch:
        patch.setattr(TorchVectors, "products", failing("sticky"))
        assert first.search(query, gallery, None, member, 5) is None
    assert second.device == "cpu"
    assert second.search(query, gallery, None, member, 5) is None
    assert second._accelerator is None  # its memory is free


def in_helpers(work):
    """Call `work` in threads of the same search, one after the other; raise what the first of them raised."""
    errors = []

    def run():
        try:
            time.sleep(0.06)  # until the next check is due
            work()
        except Exception as error:
            errors.append(error)

    for _ in range(3):
        thread = Thread(target=copy_context().run, args=(run,))
        thread.start()
        thread.join()
    raise errors[0]


def test_a_cancelled_search_is_no_failure(gpu, tmp_path, monkeypatch):
    """Neither the time limit of a search nor a client that left."""
    from cbir.cancellation import checkpoint, time_limit

    class ClientLeft(Exception):
        pass

    def leave():
        raise ClientLeft

    gallery, query = Gallery((clustered(3000),), np.arange(3000)), clustered(1)[0]
    search = DeviceSearch(tmp_path, "auto", least=1)
    monkeypatch.setattr(TorchVectors, "products", lambda *_: checkpoint())
    for limit, error in [((1e-9,), QueryCancelled), ((60.0, leave), ClientLeft)]:
        with time_limit(*limit), pytest.raises(error):
            search.search(query, gallery, None, rerank.get("none"), 5)
    monkeypatch.setattr(TorchVectors, "products", lambda *_: in_helpers(checkpoint))
    with time_limit(60.0, leave), pytest.raises(ClientLeft):
        search.search(query, gallery, None, rerank.get("none"), 5)
    assert device_failure.failure_count() == 0
    assert device_failure.gpu_failure() is None


def test_pieces_that_do_not_fit_are_halved(gpu, tmp_path, monkeypatch):
    """Copies, products and SVMs work in pieces; the answer is the same, and the GPU is kept."""
    gallery, query = Gallery((clustered(3000),), np.arange(3000)), clustered(1, seed=3)[0]
    expected = DeviceSearch(tmp_path, "auto", least=1).search(query, gallery, None, rerank.get("eprf"), 20)
    sizes, run = [], torch_vectors.in_pieces

    def small_memory(work, count, size):
        def limited(rows):
            sizes.append(rows.stop - rows.start)
            if sizes[-1] > 100:
                raise ERRORS["memory"]()
            return work(rows)

        return run(limited, count, size)

    monkeypatch.setattr(torch_vectors, "in_pieces", small_memory)
    answered = DeviceSearch(tmp_path, "auto", least=1).search(query, gallery, None, rerank.get("eprf"), 20)
    assert answered.rows.tolist() == expected.rows.tolist()
    np.testing.assert_allclose(answered.scores, expected.scores, atol=1e-5)
    assert max(sizes) > 100 > min(sizes)
    assert device_failure.failure_count() == 0


def test_edges_are_followed_in_pieces(gpu, tmp_path, monkeypatch):
    """The graph of diffusion: limits are bytes, whatever the number of images."""
    gallery, query, member = (
        linked(clustered(6000)),
        clustered(1, seed=3)[0],
        rerank.get("diffusion", nodes=1000),
    )
    expected = DeviceSearch(tmp_path, "auto", least=1).search(query, gallery, None, member, 20)
    sizes, run = [], torch_graph.in_pieces
    monkeypatch.setattr(torch_graph, "EDGES", 40 << 10)
    monkeypatch.setattr(
        torch_graph, "in_pieces", lambda work, count, size: sizes.append(size) or run(work, count, size)
    )
    answered = DeviceSearch(tmp_path, "auto", least=1).search(query, gallery, None, member, 20)
    assert answered.rows.tolist() == expected.rows.tolist()
    assert (answered.scores == expected.scores).all()
    assert sizes
    assert max(sizes) < 1024
