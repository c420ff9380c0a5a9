"""What counts as a GPU: one that computes a small example as the CPU does."""

import os
import re
from types import SimpleNamespace

import faiss
import numpy as np
import pytest
import torch

from cbir.errors import InvalidInput
from cbir.system import device, device_failure
from cbir.system.device import choose_device, faiss_gpu_problem, resolve_device, try_faiss
from tests.cbir.system.device_errors import ERRORS, failing

PLACES = (
    (torch.Tensor, "to"),
    (torch, "mm"),
    (torch.Tensor, "topk"),
    (torch.nn.functional, "conv2d"),
    (torch.cuda, "is_available"),
)


@pytest.fixture
def imagined(monkeypatch, tmp_path):
    """A GPU whose tensors stay on the processor, which has no half precision products of single precision."""
    (tmp_path / "driver").touch()
    to, mm = torch.Tensor.to, torch.mm
    monkeypatch.setattr(device, "DRIVERS", (tmp_path / "driver",))
    monkeypatch.setattr(device, "_results", {})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Test GPU")
    monkeypatch.setattr(
        torch.Tensor, "to", lambda self, *a, **k: self if a == ("cuda",) else to(self, *a, **k)
    )
    monkeypatch.setattr(torch, "mm", lambda left, right, out_dtype=None: mm(left.float(), right.float()))


def test_a_gpu_that_computes_is_used(imagined):
    assert choose_device("auto") == choose_device("cuda") == ("cuda", "Test GPU passed its trial")
    assert str(choose_device("auto")) == "cuda, because Test GPU passed its trial"


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("place", PLACES)
def test_one_that_fails_is_not(imagined, monkeypatch, caplog, place, error):
    with monkeypatch.context() as patch:
        patch.setattr(*place, failing(error))
        choice = choose_device("auto")
    assert choice.name == "cpu"
    assert choice.reason.startswith("the GPU failed (torch at the trial): ")
    assert "\n" not in choice.reason
    assert [record.getMessage() for record in caplog.records] == [f"{choice.reason}; the CPU computes"]
    assert device_failure.failure_count() == 1
    monkeypatch.setattr(device, "_results", {})
    with monkeypatch.context() as patch:
        patch.setattr(*place, failing(error))
        with pytest.raises(InvalidInput, match=r"^device=cuda: the GPU failed .*; set device=cpu or auto"):
            resolve_device("cuda")


def test_one_that_computes_other_numbers_is_not(imagined, monkeypatch):
    monkeypatch.setattr(torch, "mm", lambda left, right, out_dtype=None: torch.zeros(64, 64))
    assert choose_device("auto").reason.endswith("Test GPU computes other numbers than the CPU")


def test_the_trial_is_made_once_for_each_process(imagined, monkeypatch):
    calls = []
    monkeypatch.setattr(device, "torch_problem", lambda needs_driver: calls.append(os.getpid()))
    assert {choose_device("auto").name for _ in range(3)} == {"cuda"}
    assert len(calls) == 1
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as a forked child has another number
    choose_device("auto")
    assert len(calls) == 2


def test_a_failure_later_on_counts_for_auto_alone(imagined):
    device_failure.give_up_gpu("the GPU failed (search): a reason")
    assert choose_device("auto") == ("cpu", "the GPU failed (search): a reason")
    assert choose_device("cuda").name == "cuda"


@pytest.fixture
def faiss_gpu(monkeypatch):
    """What faiss-gpu adds to faiss, on the processor; what tests put at `copy` copies an index."""
    gpu = SimpleNamespace(copy=lambda _, number, index, options: faiss.clone_index(index))
    resources = type(
        "Resources",
        (),
        {"setTempMemory": lambda self, size: None, "setPinnedMemory": lambda self, size: None},
    )
    monkeypatch.setattr(device, "_results", {})
    monkeypatch.setattr(faiss, "StandardGpuResources", resources, raising=False)
    monkeypatch.setattr(faiss, "GpuClonerOptions", type("Options", (), {}), raising=False)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", lambda *given: gpu.copy(*given), raising=False)
    return gpu


def test_faiss_that_searches_on_a_gpu(faiss_gpu):
    try_faiss()


def test_faiss_that_finds_others(faiss_gpu):
    def other(_, number, index, options):
        wrong = faiss.IndexFlatL2(index.d)
        wrong.add(np.zeros((10, index.d), np.float32))
        return wrong

    faiss_gpu.copy = other
    with pytest.raises(RuntimeError, match="finds other neighbours"):
        try_faiss()


@pytest.mark.parametrize("error", ERRORS)
def test_faiss_that_cannot_copy_an_index(faiss_gpu, error):
    faiss_gpu.copy = failing(error)
    with pytest.raises(type(ERRORS[error]())):
        try_faiss()


ABORTS = (
    "import os, sys; print('Faiss assertion failed: CUDA error 209', file=sys.stderr, flush=True); os.abort()"
)
TRIALS = {
    ABORTS: "ended with -6: Faiss assertion failed: CUDA error 209$",
    "raise RuntimeError('other neighbours')": "ended with 1: RuntimeError: other neighbours$",
    "import time; time.sleep(60)": "TimeoutExpired",
}


@pytest.mark.parametrize(("program", "reason"), TRIALS.items())
def test_the_trial_of_faiss_is_a_process_of_its_own(faiss_gpu, monkeypatch, caplog, program, reason):
    """FAISS aborts where others raise."""
    monkeypatch.setattr(device, "FAISS_TRIAL", ("-c", program))
    monkeypatch.setattr(device, "SECONDS", 1 if "sleep" in program else 120)
    problem = faiss_gpu_problem()
    assert problem.startswith("the GPU failed (FAISS at the trial): ")
    assert re.search(reason, problem)
    assert len(caplog.records) == 1


def test_a_trial_of_faiss_that_ends_well(faiss_gpu, monkeypatch):
    monkeypatch.setattr(device, "FAISS_TRIAL", ("-c", "import cbir.system.device"))
    assert faiss_gpu_problem() is None


def test_faiss_without_a_gpu(faiss_gpu, monkeypatch):
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0)
    assert "finds no GPU" in faiss_gpu_problem()
