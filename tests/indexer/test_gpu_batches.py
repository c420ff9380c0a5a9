"""`cbir index` on a GPU: processes prepare images, and one describes batches of them."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cbir.descriptors.encoders.device_encoder import LEAST_COSINE, least_cosine
from cbir.errors import UndescribableImage
from cbir.images import Limits
from cbir.ingest.description import DescribedFile, DescribeTask, describe_prepared
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.system import device_failure
from indexer import file_pools
from indexer.describe_files import FileTask
from indexer.file_pools import describe_all, describe_batches
from indexer.ray_cluster.node_worker import NodeWorker
from tests.indexer.commands import call, index
from tests.indexer.conftest import picture
from tests.indexer.test_describe_files import KILLER, hook_files

pytest.importorskip("torch")
from cbir.descriptors.encoders.device_network import DeviceNetwork
from tests.cbir.system.device_errors import failing
from tests.stand_in_gpu import TRIAL, stand_in_gpu  # noqa: F401

BATCH = 12
PROFILE = "lite0"


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch, stand_in_gpu: None) -> Iterator[list[int]]:  # noqa: F811
    """Sizes of the batches that the GPU describes, which are small here."""
    seen: list[int] = []
    describe = DeviceNetwork.describe

    def watched(self, inputs):
        seen.extend([len(inputs)] if len(inputs) != TRIAL else [])
        return describe(self, inputs)

    monkeypatch.setattr(DeviceNetwork, "describe", watched)
    monkeypatch.setattr(file_pools, "IMAGES_TOGETHER", BATCH)
    return seen


def task(device) -> FileTask:
    return FileTask(DescribeTask(profiles.get(PROFILE), bytes(32), Limits(), device))


def pictures(folder: Path, count: int) -> list[Path]:
    return [picture(folder / f"{seed:03d}.png", seed, size=30 + seed) for seed in range(count)]


def vectors(results) -> np.ndarray:
    return np.stack([vector for _, described in results for vector in described.vectors])


def described(paths, device):
    return list(describe_all(iter(paths), task(device), jobs=2))


def test_batches_are_those_of_the_cpu_in_the_order_of_the_files(tmp_path, batches):
    paths = pictures(tmp_path / "images", 2 * BATCH + 3)
    paths.insert(5, tmp_path / "images" / "notes.png")
    paths[5].write_text("no picture")
    expected = described(paths, "cpu")
    assert batches == []
    results = described(paths, "auto")
    assert [path for path, _ in results] == paths
    assert [path for path, file in results if file.refused] == [paths[5]]
    assert batches == [BATCH, BATCH]  # the last 3 are too few
    assert least_cosine(vectors(results), vectors(expected)) >= LEAST_COSINE
    for (_, on_gpu), (_, on_cpu) in zip(results, expected, strict=True):
        assert on_gpu.records == on_cpu.records
        assert all(values.dtype == np.float32 for values in on_gpu.vectors)


def test_a_few_files_are_described_by_the_cpu(tmp_path, batches):
    """A GPU takes seconds to start; with device=cuda it starts for one."""
    paths = pictures(tmp_path / "images", BATCH - 1)
    described(paths, "auto")
    assert batches == []
    described(paths, "cuda")
    assert batches == [BATCH - 1]


@pytest.mark.slow
def test_the_file_that_kills_its_process_is_refused(tmp_path, batches, monkeypatch):
    paths = pictures(tmp_path / "images", BATCH + 2)
    paths.insert(3, picture(tmp_path / "images" / KILLER, 99))
    hook_files(monkeypatch, tmp_path, KILLER, "os._exit(11)")
    results = described(paths, "auto")
    assert [path for path, _ in results] == paths
    assert [path.name for path, file in results if file.refused] == [KILLER]


@pytest.mark.parametrize("profile", [PROFILE, "lite0+tamura"])
def test_a_collection_made_on_a_gpu(tmp_path, batches, profile):
    paths = pictures(tmp_path / "images", 2 * BATCH)
    summary = index(tmp_path / "images", tmp_path / "gpu", "--device", "cuda", "--profile", profile)
    assert (summary["indexed"], summary["refused"]) == (len(paths), 0)
    assert batches == [BATCH, BATCH]
    index(tmp_path / "images", tmp_path / "cpu", "--device", "cpu", "--profile", profile)
    with Collection(tmp_path / "gpu") as gpu, Collection(tmp_path / "cpu") as cpu:
        assert gpu.profile.hash == cpu.profile.hash
        stored = [each.raw_vectors(np.array([number for number, _ in each.iterate()])) for each in (gpu, cpu)]
    assert least_cosine(*stored) >= LEAST_COSINE


def test_the_intake_check_sees_negatives_too(tmp_path, batches, monkeypatch):
    paths = pictures(tmp_path / "images", BATCH)
    checked = task("cuda")
    checked = replace(checked, describe=replace(checked.describe, check_intake=True))
    results = list(describe_all(iter(paths), checked, jobs=1))
    assert all(len(file.inverted) == len(file.vectors) == 1 for _, file in results)
    assert {file.inverted[0].shape for _, file in results} == {(1008,)}


def test_a_failure_amid_a_run_leads_to_the_cpu(tmp_path, batches, monkeypatch, caplog):
    paths = pictures(tmp_path / "images", 3 * BATCH)
    run, calls = DeviceNetwork._run, []

    def fails_later(self, source):
        calls.extend([len(source)] if len(source) != TRIAL else [])
        return failing("sticky")() if len(calls) > 1 else run(self, source)

    monkeypatch.setattr(DeviceNetwork, "_run", fails_later)
    results = described(paths, "auto")
    assert least_cosine(vectors(results), vectors(described(paths, "cpu"))) >= LEAST_COSINE
    assert calls == [BATCH, BATCH]
    assert device_failure.failure_count() == len(caplog.records) == 1
    calls.clear()
    monkeypatch.setattr(device_failure, "_failures", device_failure._FailureLog())
    errors = call("index", tmp_path / "images", "--device", "cuda", "--profile", PROFILE, "--collection",
                  tmp_path / "collection", "--jobs", 1, code=2)[1]  # fmt: skip
    assert "set device=cpu or auto to compute on the CPU" in errors
    assert "Traceback" not in errors


def test_index_on_a_gpu_that_is_not_there(tmp_path, monkeypatch):
    pictures(tmp_path / "images", 1)
    monkeypatch.setattr("cbir.system.device._tried", lambda library, needs_driver=False: "there is no GPU")
    arguments = "index", tmp_path / "images", "--collection", tmp_path / "collection"
    for options, environment in ((("--device", "cuda"), {}), ((), {"CBIR_DEVICE": "cuda"})):
        printed, errors = call(*arguments, *options, code=2, **environment)
        assert (printed, errors) == (
            "",
            "cbir: device=cuda: there is no GPU; set device=cpu or auto to compute on the CPU\n",
        )
    assert not (tmp_path / "collection").exists()
    assert index(tmp_path / "images", tmp_path / "collection", "--device", "auto")["indexed"] == 1


def test_only_the_image_that_cannot_be_described_is_refused():
    class Fails:
        name, dimensions, parts = "fails", 1, ()
        calls = 0

        def describe_batch(self, inputs):
            Fails.calls += 1
            if any(values[0] == 7 for values in inputs):
                raise UndescribableImage("seven")
            return np.array(inputs, np.float32)

    files = [DescribedFile(vectors=(np.array([number]),)) for number in range(16)]
    results = describe_prepared(files, Fails())
    assert [number for number, result in enumerate(results) if result.refused] == [7]
    assert [float(result.vectors[0][0]) for result in results if result.vectors] == [*range(7), *range(8, 16)]
    assert Fails.calls == 9  # halves, down to the image


def test_an_ended_run_ends_the_processes_and_the_thread(monkeypatch):
    """As by Ctrl-C: what was begun is finished, and nothing runs on."""
    closed = []

    def files():
        try:
            for number in range(20):
                yield Path(str(number)), DescribedFile(vectors=(np.zeros(1),))
        finally:
            closed.append(True)

    class Describes:
        def describe_batch(self, inputs):
            return np.zeros((len(inputs), 4), np.float32)

    monkeypatch.setattr(file_pools, "IMAGES_TOGETHER", 2)
    before = threading.active_count()
    results = describe_batches(files(), Describes())
    next(results)
    results.close()
    assert closed == [True]
    assert threading.active_count() == before


def test_processes_of_a_cluster_leave_the_gpu_alone():
    """Each would take memory of it; embeddings run there, as ever."""
    node = NodeWorker()
    for profile, device in ((PROFILE, "cpu"), ("tamura", "cuda")):
        settings = FileTask(DescribeTask(profiles.get(profile), bytes(32), Limits(), "cuda"))
        assert node.start(print, settings, {}, 1).problem is None
        function, _ = node._pool._arguments
        assert function.keywords["task"].describe.device == device


def test_large_inputs_make_small_batches(monkeypatch):
    monkeypatch.setattr(file_pools, "MOST_BYTES", 1000)
    file = DescribedFile(vectors=(np.zeros(600, np.uint8),))
    sizes = [len(sources) for sources, _ in file_pools._batches([("path", file)] * 5)]
    assert sizes == [2, 2, 1]
