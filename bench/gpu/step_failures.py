"""Full memory, broken kernels and a broken FAISS: `auto` answers as the CPU does, `cuda` says why in a line."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cbir.gpu import faiss_index
from cbir.gpu.device_search import DeviceSearch
from step_results import SMALL, attempt, without_gpu

from cbir import rerank
from cbir.errors import DeviceFailed
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import rank, top_k
from cbir.hardware import device_failure

COUNT, K = (20_000 if SMALL else 200_000), 20
METHODS = {"exact": "eprf", "flat": "none", "faiss-ivf": "none"}
VECTORS = np.random.default_rng(0).standard_normal((COUNT, 128), dtype=np.float32)
GALLERY, QUERY = Gallery((VECTORS,), np.arange(COUNT, dtype=np.int64)), VECTORS[5]


@cache
def best(method: str) -> np.ndarray:
    """Return the rows that the CPU finds."""
    ranking = rank(QUERY, GALLERY)
    return ranking.rows[top_k(rerank.get(method)(QUERY, ranking, GALLERY).scores, K)]


def outcome(setting: Any, index: str, method: str) -> dict[str, Any]:
    """Search; return who answered, and how many of the best are the CPU's."""
    device_failure._failures = device_failure._FailureLog()  # as a new process begins
    member = rerank.get(method)
    try:
        search = DeviceSearch(Path(tempfile.mkdtemp()), setting, index, least=1)
        hits = search.search(QUERY, GALLERY, None, member, K)
    except DeviceFailed as error:
        return {"refused": str(error), "lines": len(str(error).splitlines())}
    expected = best(method)
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


def sticky() -> dict[str, Any]:
    """Search after a kernel has broken the GPU for its process, which cannot be undone: in a process of its own."""
    command = [sys.executable, __file__, "sticky"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if ended.returncode:
        raise RuntimeError(f"ended with {ended.returncode}: {ended.stderr[-300:]}")
    return dict(json.loads(ended.stdout.strip().splitlines()[-1]))


def break_gpu() -> None:
    """Read beyond a tensor on the GPU; everything after it fails."""
    with suppress(Exception):
        torch.zeros(2, device="cuda")[torch.tensor([9], device="cuda")].cpu()


def sound() -> Any:
    return nullcontext()


# What fails, and which indexes that concerns
FAILURES: tuple[tuple[str, Callable[[], Any], tuple[str, ...]], ...] = (
    ("none", sound, ("exact", "flat", "faiss-ivf")),
    ("memory", full_memory, ("exact", "flat", "faiss-ivf")),
    ("kernel", lambda: replaced(torch, "topk", no_kernel), ("exact",)),
    ("faiss", lambda: replaced(faiss_index, "_on_gpu", no_index), ("flat", "faiss-ivf")),
    ("none_afterwards", sound, ("exact", "flat")),
)


def searched(context: Callable[[], Any], setting: str, index: str) -> dict[str, Any]:
    """Search with a failure."""
    with context():
        return outcome(setting, index, METHODS[index])


def main() -> None:
    absent = without_gpu("failures")
    for failure, context, indexes in FAILURES:
        for setting in ("auto", "cuda"):
            for index in indexes:
                if not absent or (setting == "auto" and failure != "memory"):
                    attempt(
                        f"failures.{failure}.{setting}.{index}", partial(searched, context, setting, index)
                    )
    if not absent:
        attempt("failures.sticky.auto.exact", sticky)


if __name__ == "__main__":
    if sys.argv[1:] == ["sticky"]:
        break_gpu()
        print(json.dumps(outcome("auto", "exact", "eprf")))
    else:
        main()
