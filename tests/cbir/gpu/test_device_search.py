"""Which device, whose it is, and a search that goes through it."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from cbir.gpu import accelerator, device_search
from cbir.gpu.device_search import SCALED, DeviceSearch
from cbir.gpu.torch_vectors import TorchVectors

from cbir import rerank
from cbir.errors import CollectionBusy, DeviceFailed, InvalidInput
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import rank, top_k
from cbir.hardware import device, device_trial
from cbir.hardware.device import faiss_gpu_problem, resolve_device
from tests.cbir.gpu.test_accelerator import clustered

WITHOUT_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@pytest.fixture(scope="module")
def gallery() -> Gallery:
    return Gallery((clustered(3000),), np.arange(3000))


@WITHOUT_GPU
def test_cuda_where_there_is_none_is_refused_with_the_reason():
    with pytest.raises(InvalidInput, match=r"device=cuda: torch .* finds no GPU .*; set device=cpu"):
        resolve_device("cuda")


@WITHOUT_GPU
def test_auto_takes_the_processor(monkeypatch, tmp_path):
    assert resolve_device("auto") == resolve_device("cpu") == "cpu"
    (tmp_path / "driver").touch()
    monkeypatch.setattr(device_trial, "DRIVERS", (tmp_path / "driver",))
    monkeypatch.setattr(device, "_results", {})
    assert resolve_device("auto") == "cpu"


def test_auto_does_not_import_torch_on_a_machine_without_a_driver():
    code = (
        "import sys; from cbir.hardware import device, device_trial; device_trial.DRIVERS = (); "
        "assert device.resolve_device('auto') == 'cpu'; import cbir.search; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_processor_needs_no_owner(gallery, tmp_path):
    device = DeviceSearch(tmp_path, "cpu", least=1)
    assert device.search(clustered(1)[0], gallery, None, rerank.get("none"), 5) is None
    assert not list(tmp_path.iterdir())


def test_re_rankers_of_the_top_use_the_index_and_others_do_not(gallery, tmp_path):
    device, query = DeviceSearch(tmp_path, "cpu", "flat", least=1), clustered(1, seed=3)[0]
    for name in rerank.names():
        result = device.search(query, gallery, None, rerank.get(name), 20)
        assert (result is None) == (rerank.get(name).depth is None)
        if result is not None:
            assert SCALED in result.reranked.notes
            assert len(result.rows) == 20
    expected = rank(query, gallery)
    result = device.search(query, gallery, None, rerank.get("none"), 20)
    assert result.rows.tolist() == expected.rows[top_k(expected.similarities, 20)].tolist()
    assert DeviceSearch(tmp_path, "cpu", "flat").search(query, gallery, None, rerank.get("none"), 20) is None


HOLD = """
import sys
from pathlib import Path
from cbir.gpu import device_search
print(device_search.acquire_device_lock(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_one_process_owns_a_collection_on_the_device(gallery, tmp_path, monkeypatch):
    monkeypatch.setattr(device_search, "resolve_device", lambda name: "cuda")
    query, member = clustered(1)[0], rerank.get("none")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline().strip() == "True"
        assert DeviceSearch(tmp_path, "auto", least=1).search(query, gallery, None, member, 5) is None
        with pytest.raises(CollectionBusy, match="on the GPU"):
            DeviceSearch(tmp_path, "cuda", least=1).search(query, gallery, None, member, 5)
    finally:
        holder.communicate()
    assert device_search.acquire_device_lock(tmp_path)  # its holder died
    assert device_search.acquire_device_lock(
        tmp_path
    )  # and is ours for every collection object of this process


def test_a_child_does_not_use_what_its_parent_put_on_a_device(gallery, tmp_path):
    device = DeviceSearch(tmp_path, "cpu", "flat", least=1)
    assert device.search(clustered(1)[0], gallery, None, rerank.get("none"), 5) is not None
    device._process += 1  # as a forked child finds it
    assert device.search(clustered(1)[0], gallery, None, rerank.get("none"), 5) is None


def test_the_torch_path_answers_through_the_owner(gallery, tmp_path, monkeypatch):
    """As with a GPU, but that torch's name of it is the processor's."""
    monkeypatch.setattr(device_search, "resolve_device", lambda name: "cuda")
    monkeypatch.setattr(accelerator, "TorchVectors", lambda _, half: TorchVectors("cpu", half))
    query, member = clustered(1, seed=4)[0], rerank.get("eprf")
    result = DeviceSearch(tmp_path, "cuda", least=1).search(query, gallery, None, member, 20)
    scores = member(query, rank(query, gallery), gallery).scores
    assert len(np.intersect1d(result.rows, top_k(scores, 20))) >= 18


class Full:
    """Vectors on a device without room."""

    device = torch.device("cpu")

    def has(self, gallery):
        return False

    def follow(self, gallery):
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_collection_that_does_not_fit(gallery, tmp_path, monkeypatch):
    monkeypatch.setattr(device_search, "resolve_device", lambda name: "cuda")
    monkeypatch.setattr(accelerator, "TorchVectors", lambda device, half: Full())
    query, member = clustered(1)[0], rerank.get("none")
    with pytest.raises(DeviceFailed, match=r"the GPU failed \(search\): .*out of memory.* device=cpu"):
        DeviceSearch(tmp_path, "cuda", least=1).search(query, gallery, None, member, 5)
    unsure = DeviceSearch(tmp_path, "auto", least=1)
    assert unsure.search(query, gallery, None, member, 5) is None
    assert unsure.device == "cpu"


@pytest.mark.skipif(not faiss_gpu_problem(), reason="faiss can use a GPU here")
def test_an_index_needs_a_faiss_that_has_the_gpu(gallery, tmp_path, monkeypatch):
    monkeypatch.setattr(device_search, "resolve_device", lambda name: "cuda")
    with pytest.raises(InvalidInput, match="faiss-gpu"):
        DeviceSearch(tmp_path, "cuda", "faiss-ivf")
    unsure = DeviceSearch(tmp_path, "auto", "flat", least=1)
    assert len(unsure.search(clustered(1)[0], gallery, None, rerank.get("none"), 5).rows) == 5
