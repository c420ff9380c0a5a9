"""FAISS on the GPU against the CPU: neighbours, nprobe, k = 2,048, additions after a search, filters, times."""

import time
from typing import Any

import numpy as np
from cbir.gpu import faiss_index
from cbir.gpu.nearest_index import NearestIndex
from step_results import GPU, SMALL, attempt, report

from cbir.gallery.gallery import Gallery
from cbir.hardware.device import faiss_gpu_problem

COUNT, DIMENSIONS, QUERIES, MOST = (20_000 if SMALL else 1_000_000), 128, 64, 2048
DEVICE = "cpu" if faiss_gpu_problem() else "cuda"


def clustered(count: int, seed: int) -> np.ndarray:
    """Return `count` vectors of length 1 around 1,000 centres."""
    centres = np.random.default_rng(7).standard_normal((1000, DIMENSIONS)).astype(np.float32)
    random = np.random.default_rng(seed)
    vectors = centres[random.integers(0, 1000, count)]
    vectors += np.float32(0.7) * random.standard_normal((count, DIMENSIONS), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


VECTORS, QUERY = clustered(COUNT, 1), clustered(QUERIES, 2)


def built(kind: Any, device: str) -> Any:
    """Return the product's index of `kind` with all vectors, on `device`."""
    lists = faiss_index.LISTS * int(COUNT**0.5)
    index = faiss_index.create_index(
        kind, device, DIMENSIONS, VECTORS[:: max(1, COUNT // (64 * lists))], COUNT
    )
    index.add(VECTORS)
    return index


def shared(mine: np.ndarray, theirs: np.ndarray) -> float:
    """Return the share of neighbours that both have, in any order."""
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(mine, theirs, strict=True)]))


def milliseconds(index: Any, k: int) -> dict[str, float]:
    """Return the median of single queries, and of each of a batch."""
    index.search(QUERY[:1], k)
    single = []
    for row in range(20):
        began = time.perf_counter()
        index.search(QUERY[row : row + 1], k)
        single.append(1000 * (time.perf_counter() - began))
    began = time.perf_counter()
    index.search(QUERY, k)
    batch = 1000 * (time.perf_counter() - began) / QUERIES
    return {f"ms_k{k}": round(float(np.median(single)), 3), f"ms_batch_k{k}": round(batch, 3)}


def compare(mine: Any, theirs: Any) -> dict[str, Any]:
    """Compare two indexes of the same vectors."""
    facts: dict[str, Any] = {}
    for k in (10, 100, min(MOST, COUNT)):
        (distances, rows), (expected, nearest) = mine.search(QUERY, k), theirs.search(QUERY, k)
        both = np.isfinite(distances) & np.isfinite(expected)
        facts |= {f"same_k{k}": round(shared(rows, nearest), 5)}
        facts |= {f"largest_error_k{k}": float(np.abs(distances - expected)[both].max())}
        facts |= milliseconds(mine, k) | {f"cpu_{name}": ms for name, ms in milliseconds(theirs, k).items()}
    return facts


def probes(mine: Any, theirs: Any) -> dict[str, Any]:
    """Return whether the number of lists that are read survived the copy, and what it changes."""
    facts: dict[str, Any] = {"nprobe": int(mine.nprobe), "expected": faiss_index.PROBED}
    for count in (1, faiss_index.PROBED):
        mine.nprobe = theirs.nprobe = count
        facts[f"same_nprobe{count}"] = round(
            shared(mine.search(QUERY, 100)[1], theirs.search(QUERY, 100)[1]), 5
        )
    return facts


def additions(index: Any) -> dict[str, Any]:
    """Add after a search; new vectors find themselves."""
    before, new = int(index.ntotal), clustered(1000, 5)
    index.search(QUERY, 10)
    index.add(new)
    found = index.search(new, 1)[1][:, 0]
    return {
        "added": int(index.ntotal) - before,
        "found_themselves": float((found == before + np.arange(1000)).mean()),
    }


def filters(kind: Any) -> dict[str, Any]:
    """Search a tenth and nearly all of the images through the product's index."""
    gallery, index = Gallery((VECTORS,), np.arange(COUNT)), NearestIndex(kind, DEVICE)
    on_cpu, facts = NearestIndex(kind, "cpu"), {}
    for name, rows in {
        "tenth": np.arange(0, COUNT, 10),
        "most": np.delete(np.arange(COUNT), np.arange(50)),
    }.items():
        heads = [one.head(QUERY[0], gallery, rows, 100) for one in (index, on_cpu)]
        best = [head.rows[np.argsort(head.distances, kind="stable")[:100]] for head in heads]
        facts |= {
            f"obeyed_{name}": bool(np.isin(best[0], rows).all()),
            f"same_{name}": shared(best[:1], best[1:]),
        }
    return facts


def main() -> None:
    report("faiss.device", device=DEVICE, gpu=GPU, images=COUNT, problem=faiss_gpu_problem())
    for kind in ("flat", "ivf"):
        indexes: list[Any] = []
        attempt(f"faiss.{kind}.build", lambda: timed_build(kind, indexes))  # noqa: B023
        if len(indexes) == 2:
            attempt(f"faiss.{kind}", lambda: compare(*indexes))  # noqa: B023
            if kind == "ivf":
                attempt("faiss.ivf.nprobe", lambda: probes(*indexes))  # noqa: B023
            attempt(f"faiss.{kind}.additions", lambda: additions(indexes[0]))  # noqa: B023
            attempt(f"faiss.{kind}.filters", lambda: filters(kind))  # noqa: B023


def timed_build(kind: str, indexes: list[Any]) -> dict[str, float]:
    """Build the index on both devices; append them to `indexes`, that of the device first."""
    seconds = {}
    for device in (DEVICE, "cpu"):
        began = time.perf_counter()
        indexes.append(built(kind, device))
        seconds["cpu_seconds" if len(indexes) == 2 else "seconds"] = round(time.perf_counter() - began, 2)
    return seconds


if __name__ == "__main__":
    main()
