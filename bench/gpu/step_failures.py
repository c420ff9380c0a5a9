"""Full memory, broken kernels and a broken FAISS: `auto` answers as the CPU does, `cuda` says why in a line."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from step_results import GPU, SMALL, attempt, without_gpu

from cbir import rerank
from cbir.errors import DeviceFailed
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import rank, top_k
from cbir.gpu import faiss_index
from cbir.gpu.device_search import DeviceSearch
from cbir.hardware import device_failure

COUNT, K = (20_000 if SMALL else 1_000_000), 20
SEARCHES = (("exact", "eprf"), ("flat", "none"), ("faiss-ivf", "none"))
VECTORS = np.random.default_rng(0).standard_normal((COUNT, 128), dtype=np.float32)
GALLERY, QUERY = Gallery((VECTORS,), np.arange(COUNT, dtype=np.int64)), VECTORS[5]


def outcome(setting: Any, index: str, method: str) -> dict[str, Any]:
    """Search; return who answered, and how many of the best are the CPU's."""
    device_failure._failures = device_failure._FailureLog()  # as a new process begins
    member = rerank.get(method)
    try:
        search = DeviceSearch(Path(tempfile.mkdtemp()), setting, index, least=1)
        hits = search.search(QUERY, GALLERY, None, member, K)
    except DeviceFailed as error:
        return {"refused": str(error), "lines": len(str(error).splitlines())}
    ranking = rank(QUERY, GALLERY)
    expected = ranking.rows[top_k(member(QUERY, ranking, GALLERY).scores, K)]
    rows = expected if hits is None else hits.rows
    said = device_failure.gpu_failure()
    return {"answered_by": "numpy" if hits is None else f"index on {search.device}" if said else search.device,
            "shared": len(np.intersect1d(rows, expected)) / K, "warning": said}  # fmt: skip


@contextmanager
def full_memory() -> Iterator[None]:
    """Leave some 64 MiB of the GPU's memory."""
    hog = torch.empty(torch.cuda.mem_get_info()[0] - (600 << 20), dtype=torch.uint8, device="cuda")
    rest = []
    while torch.cuda.mem_get_info()[0] > 128 << 20:
        rest.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
    yield
    del hog, rest
    torch.cuda.empty_cache()


@contextmanager
def replaced(owner: Any, name: str, error: Callable[[], Exception]) -> Iterator[None]:
    """Let a function of torch or FAISS fail."""

    def fail(*_: Any, **__: Any) -> None:
        raise error()

    before = getattr(owner, name)
    setattr(owner, name, fail)
    try:
        yield
    finally:
        setattr(owner, name, before)


def no_kernel() -> Exception:
    return RuntimeError("CUDA error: no kernel image is available for execution on the device")


def no_index() -> Exception:
    return RuntimeError(
        "Error in runL2Norm at L2Norm.cu:120: Error: CUDA error 209 no kernel image is available"
    )


FAILURES: dict[str, Callable[[], Any]] = {
    "none": partial(tempfile.TemporaryDirectory),
    "kernel": lambda: replaced(torch, "topk", no_kernel),
    "faiss": lambda: replaced(faiss_index, "_on_gpu", no_index),
    "memory": full_memory,
    "none_afterwards": partial(tempfile.TemporaryDirectory),
}


def main() -> None:
    if without_gpu("failures"):
        FAILURES.pop("memory")
    for failure, context in FAILURES.items():
        for setting in ("auto", "cuda") if GPU else ("auto",):
            for index, method in SEARCHES:
                name = f"failures.{failure}.{setting}.{index}"
                with context():
                    attempt(name, partial(outcome, setting, index, method))


if __name__ == "__main__":
    main()
