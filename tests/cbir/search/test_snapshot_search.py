"""Where a snapshot is searched: on the GPU as on the CPU, and by the CPU whatever the GPU fails with."""

import logging
import os
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from cbir import rerank, settings
from cbir.api.main import app
from cbir.errors import CollectionBusy, DeviceFailed, InvalidInput, QueryCancelled
from cbir.gallery import flat_index
from cbir.gallery.flat_index import GpuFlatIndex
from cbir.search import Request, Searcher, Stopwatch, snapshot_search
from cbir.store import Collection
from cbir.system import device, device_failure
from cbir.system.device import choose_device
from cbir.system.threads import checkpoint, time_limit
from tests.cbir.search.drawn_vectors import create_collection
from tests.cbir.system.device_errors import ERRORS, failing
from tests.cbir.system.imagined_gpu import ImaginedIndex

FEW: dict[str, Any] = {"indexed_candidates": 40, "indexed_sample": 40}


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return create_collection(tmp_path_factory.mktemp("device") / "collection")


@pytest.fixture(autouse=True)
def _sound_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_failure, "_failures", device_failure._FailureLog())


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU, or the processor under its name."""
    monkeypatch.setattr(snapshot_search, "resolve_device", lambda name: "cpu" if name == "cpu" else "cuda")
    monkeypatch.setattr(snapshot_search, "faiss_gpu_problem", lambda: None)
    monkeypatch.setattr(snapshot_search, "AS_A_WHOLE", 1)
    monkeypatch.setattr(flat_index, "create_gpu_index", ImaginedIndex)
    yield
    while device._device_locks:
        os.close(device._device_locks.popitem()[1])


def searcher_on(collection: Collection, device: str) -> Searcher:
    searcher = Searcher(collection, settings.load(device="cpu", **FEW))
    searcher.vectors.of_view._search = snapshot_search.SnapshotSearch(collection.folder, device)  # type: ignore[arg-type]
    searcher.vectors.whole_up_to = 0
    return searcher


def asked_for(collection: Collection) -> str:
    return collection.page(0, 20)[7][1].image_id


def answer(collection: Collection, device: str, **request: Any):
    request = {"k": 15, "rerank": "none"} | request
    searcher = searcher_on(collection, device)
    found = searcher.by_id(asked_for(collection), Request(**request), Stopwatch())
    return [(hit.image_id, hit.score, hit.distance) for hit in found.results], found.rerank


@pytest.mark.parametrize("method", ["auto", *rerank.names()])
@pytest.mark.parametrize("where", [[], ["side=left"]])
def test_the_answer_is_that_of_the_processor(collection, gpu, monkeypatch, method, where) -> None:
    copied, add = [], ImaginedIndex.add
    monkeypatch.setattr(
        ImaginedIndex, "add", lambda self, vectors: copied.append(len(vectors)) or add(self, vectors)
    )
    request = {"rerank": method, "where": where}
    assert answer(collection, "cuda", **request) == answer(collection, "cpu", **request)
    everything = (rerank.get(method).depth or 0) >= 400  # reads more images than there are
    assert sum(copied) == (0 if everything else 400)


def test_the_answer_names_the_index(collection) -> None:
    assert answer(collection, "cpu")[1].index == "flat"


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("place", ["copy", "add", "search"])
def test_any_failure_leads_to_the_answer_of_the_processor(
    collection, gpu, monkeypatch, caplog, place, error
) -> None:
    expected = answer(collection, "cpu", rerank="eprf")
    if place == "copy":
        monkeypatch.setattr(flat_index, "create_gpu_index", failing(error))
    else:
        monkeypatch.setattr(ImaginedIndex, place, failing(error))
    with caplog.at_level(logging.WARNING):
        assert answer(collection, "auto", rerank="eprf") == expected
        assert answer(collection, "auto") == answer(collection, "cpu")
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert warnings[0].startswith("the GPU failed (search): ")
    assert "\n" not in warnings[0]
    assert device_failure.failure_count() == 1
    assert choose_device("auto").name == "cpu"
    with pytest.raises(
        DeviceFailed, match=r"^the GPU failed \(search\): .*; set device=cpu or auto"
    ) as raised:
        answer(collection, "cuda")
    assert "\n" not in str(raised.value)


def test_the_reason_of_faiss_is_what_failed() -> None:
    said = r"cudaMalloc error out of memory \[2\]\)$"
    with pytest.raises(DeviceFailed, match=said), device_failure.device_failures("search"):
        failing("faiss")()


def test_one_failure_ends_the_gpu_for_all_collections(collection, gpu, monkeypatch) -> None:
    first, second = (searcher_on(collection, "auto") for _ in range(2))
    image_id, request = asked_for(collection), Request(rerank="none")
    second.by_id(image_id, request, Stopwatch())
    assert second.vectors.of_view.device == "cuda"
    with monkeypatch.context() as patch:
        patch.setattr(ImaginedIndex, "search", failing("sticky"))
        first.by_id(image_id, request, Stopwatch())
    assert second.vectors.of_view.device == "cpu"
    with monkeypatch.context() as patch:
        patch.setattr(GpuFlatIndex, "nearest", failing("sticky"))  # it is not asked any more
        second.by_id(image_id, request, Stopwatch())
    assert device_failure.failure_count() == 1


def test_a_gpu_that_fails_in_another_thread_is_not_waited_for(collection, gpu, monkeypatch) -> None:
    searcher, suits = searcher_on(collection, "auto"), snapshot_search.SnapshotSearch._suits_gpu

    def meanwhile(self, *arguments):
        device_failure.give_up_gpu("it failed")
        self._gpu = None
        return suits(self, *arguments)

    monkeypatch.setattr(snapshot_search.SnapshotSearch, "_suits_gpu", meanwhile)
    found = searcher.by_id(asked_for(collection), Request(k=15, rerank="none"), Stopwatch())
    assert len(found.results) == 15


def test_a_cancelled_search_is_no_failure(collection, gpu, monkeypatch) -> None:
    searcher, image_id = searcher_on(collection, "auto"), asked_for(collection)
    monkeypatch.setattr(ImaginedIndex, "search", lambda *_: checkpoint())
    with time_limit(1e-9), pytest.raises(QueryCancelled):
        searcher.rank(collection.vector(image_id), "", Request(rerank="none"))
    assert device_failure.failure_count() == 0
    assert device_failure.gpu_failure() is None


def test_a_narrow_filter_and_a_small_collection_are_searched_by_the_processor(
    collection, gpu, monkeypatch
) -> None:
    monkeypatch.setattr(GpuFlatIndex, "nearest", failing("host"))
    patients = collection.patient_keys()
    assert isinstance(patients, dict)
    monkeypatch.setattr(snapshot_search, "NARROW", 0.9)
    answer(collection, "cuda", where=["side=right"])
    monkeypatch.setattr(snapshot_search, "AS_A_WHOLE", 1000)
    answer(collection, "cuda")
    assert device_failure.failure_count() == 0


HOLD = """
import sys
from pathlib import Path
from cbir.system.device import acquire_device_lock
print(acquire_device_lock(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_one_process_has_a_collection_on_the_gpu(collection, gpu, monkeypatch) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(collection.folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "True"
        assert answer(collection, "auto") == answer(collection, "cpu")
        with pytest.raises(CollectionBusy, match="on the GPU"):
            answer(collection, "cuda")
    finally:
        holder.communicate()
    for _ in range(2):  # its holder died, and it is ours for every searcher of this process
        assert device.acquire_device_lock(collection.folder)
    with monkeypatch.context() as patch:  # but not of one that was forked from it
        patch.setattr(os, "getpid", lambda: 0)
        assert not device.acquire_device_lock(collection.folder)


def test_a_collection_that_nobody_can_write_to_is_locked_all_the_same(collection, gpu, tmp_path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    commands = (["mount", "--bind", collection.folder, mount], ["mount", "-o", "remount,bind,ro", mount])
    if any(subprocess.run(command, capture_output=True, check=False).returncode for command in commands):
        subprocess.run(["umount", mount], capture_output=True, check=False)
        pytest.skip("this system lets no one mount a folder here")
    try:
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(mount)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "True"
        assert not device.acquire_device_lock(mount)
        holder.communicate()
        assert device.acquire_device_lock(mount)
    finally:
        subprocess.run(["umount", "-l", mount], check=True)


def test_a_child_does_not_use_what_its_parent_has_on_a_gpu(collection, gpu, monkeypatch) -> None:
    searcher = searcher_on(collection, "cuda")
    searcher.vectors.of_view._search._process += 1  # as a forked child finds it
    monkeypatch.setattr(GpuFlatIndex, "nearest", failing("host"))
    searcher.by_id(asked_for(collection), Request(rerank="none"), Stopwatch())


def test_a_faiss_without_a_gpu_is_told_once_at_the_start(collection, monkeypatch, caplog) -> None:
    monkeypatch.setattr(snapshot_search, "resolve_device", lambda _: "cuda")
    monkeypatch.setattr(snapshot_search, "faiss_gpu_problem", lambda: "searches on a GPU need faiss-gpu")
    with pytest.raises(InvalidInput, match="device=cuda: searches on a GPU need faiss-gpu"):
        snapshot_search.SnapshotSearch(collection.folder, "cuda")
    assert snapshot_search.SnapshotSearch(collection.folder, "auto").device == "cpu"
    assert caplog.messages == [
        "the GPU describes images, and the CPU searches: searches on a GPU need faiss-gpu"
    ]


def test_cuda_is_refused_where_there_is_none(collection) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(InvalidInput, match=r"device=cuda: torch .* finds no GPU .*; set device=cpu"):
        Searcher(collection, settings.load(device="cuda"))
    arguments = ["search", f"id:{asked_for(collection)}", "--collection", str(collection.folder)]
    assert CliRunner().invoke(app, [*arguments, "--device", "cuda"]).exit_code != 0
    assert CliRunner().invoke(app, [*arguments, "--device", "auto"]).exit_code == 0


def test_torch_is_not_imported_on_a_machine_without_a_driver() -> None:
    code = (
        "import sys; from cbir.system import device; device.DRIVERS = (); "
        "assert device.resolve_device('auto') == 'cpu'; import cbir.search.searcher; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
