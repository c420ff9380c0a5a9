"""Full memory, broken kernels and a broken GPU: `auto` answers as the CPU does, `cuda` says why in a line."""

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
from drawn_collection import DIMENSIONS, DrawnCollection, clustered
from step_results import GPU, SMALL, attempt, without_gpu

from cbir.errors import DeviceFailed
from cbir.gallery import flat_index, knn
from cbir.gallery.vector_blocks import plain_space
from cbir.search.snapshot_search import SnapshotSearch
from cbir.system import device_failure

COUNT, K = (20_000 if SMALL else 200_000), 5000


@cache
def collection() -> DrawnCollection:
    """Return what is searched."""
    return DrawnCollection(clustered(COUNT, 1), Path(tempfile.mkdtemp()))


def searched(setting: Any) -> dict[str, Any]:
    """Search; return who answered, and the share of the rows that are the CPU's."""
    gallery = collection().view().gallery
    query, index = gallery.blocks[0][5], gallery.flat_index
    search = SnapshotSearch(collection().folder, setting)
    rows = search.nearest(gallery, query, K, None)
    assert index is not None
    expected = index.nearest(query, K)
    best = rows[np.argsort(gallery.distances(query, rows), kind="stable")[:K]]
    return {"answered_by": search.device, "shared": len(np.intersect1d(best, expected)) / K}


def linked(setting: Any) -> dict[str, Any]:
    """Make a graph; return who made it."""
    knn.find_neighbours(collection().view().gallery.blocks[0][:20_000], plain_space(DIMENSIONS), setting)
    return {"answered_by": "cuda" if GPU and device_failure.gpu_failure() is None else "cpu"}


WORK = {"search": searched, "graph": linked}


def outcome(work: str, setting: str) -> dict[str, Any]:
    """Do work as a new process begins; return who did it and what was said, or the refusal."""
    device_failure._failures = device_failure._FailureLog()
    try:
        return WORK[work](setting) | {"warning": device_failure.gpu_failure()}
    except DeviceFailed as error:
        return {"refused": str(error), "lines": len(str(error).splitlines())}


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
def broken_kernels() -> Iterator[None]:
    """Let FAISS fail as without kernels for the card."""

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError(
            "Error in runL2Norm at L2Norm.cu:120: Error: CUDA error 209 no kernel image is available"
        )

    before = flat_index.create_gpu_index
    flat_index.create_gpu_index = knn.create_gpu_index = fail  # type: ignore[assignment]
    try:
        yield
    finally:
        flat_index.create_gpu_index = knn.create_gpu_index = before


def in_own_process(work: str) -> dict[str, Any]:
    """Work after a kernel has broken the GPU for its process, which cannot be undone."""
    command = [sys.executable, __file__, work]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if ended.returncode:
        raise RuntimeError(f"ended with {ended.returncode}: {ended.stderr[-300:]}")
    return dict(json.loads(ended.stdout.strip().splitlines()[-1]))


def break_gpu() -> None:
    """Read beyond a tensor on the GPU; everything after it fails."""
    with suppress(Exception):
        torch.zeros(2, device="cuda")[torch.tensor([9], device="cuda")].cpu()


FAILURES: tuple[tuple[str, Callable[[], Any]], ...] = (
    ("none", nullcontext),
    ("memory", full_memory),
    ("kernels", broken_kernels),
    ("none_afterwards", nullcontext),
)


def during(context: Callable[[], Any], work: str, setting: str) -> dict[str, Any]:
    """Work with a failure."""
    with context():
        return outcome(work, setting)


def main() -> None:
    absent = without_gpu("failures")
    for failure, context in FAILURES:
        for setting in ("auto",) if absent else ("auto", "cuda"):
            for work in () if absent and failure == "memory" else WORK:
                attempt(f"failures.{failure}.{setting}.{work}", partial(during, context, work, setting))
    for work in () if absent else WORK:
        attempt(f"failures.sticky.auto.{work}", partial(in_own_process, work))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        break_gpu()
        print(json.dumps(outcome(sys.argv[1], "auto")))
    else:
        main()
