"""Index of candidates in a large collection: time to build, memory, recall, and time of a query with its re-ranking.

The vectors are jittered copies of those in a file, or of synthetic ones in clusters of clusters, and of length 1.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from cbir.gallery.candidate_list import CandidateLimits, rank_candidates
from cbir.store.candidate_file import read_candidate_index, write_candidate_index
from numpy.typing import NDArray

from cbir import rerank
from cbir.gallery.candidate_index import build_candidate_index
from cbir.gallery.gallery import Gallery
from cbir.gallery.ranking import top_k
from cbir.rerank.top_hits import rerank_top

WRITTEN = 50_000  # vectors made at a time
BASE = 10_000  # synthetic vectors to jitter


def base_vectors(path: Path | None, dimensions: int) -> NDArray[np.float32]:
    """Load the vectors to jitter, or make clusters of clusters."""
    if path:
        return np.load(path).astype(np.float32)
    random = np.random.default_rng(0)
    centres = random.standard_normal((30, dimensions), dtype=np.float32)
    inner = centres[random.integers(0, 30, 500)] + 0.7 * random.standard_normal((500, dimensions), np.float32)
    return inner[random.integers(0, 500, BASE)] + 0.4 * random.standard_normal((BASE, dimensions), np.float32)


def jittered(
    base: NDArray[np.float32], count: int, jitter: float, random: np.random.Generator
) -> NDArray[np.float32]:
    """Return `count` noisy copies of random rows of `base`, of length 1; the noise is `jitter` of a row's length."""
    rows = base[random.integers(0, len(base), count)]
    noise = random.standard_normal(rows.shape, dtype=np.float32) * np.float32(jitter / rows.shape[1] ** 0.5)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) + noise
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def write_vectors(path: Path, base: NDArray[np.float32], count: int, jitter: float) -> NDArray[np.float32]:
    """Write `count` vectors to a file, unless it has them, and map it."""
    shape, random = (count, base.shape[1]), np.random.default_rng(1)
    if not path.exists() or path.stat().st_size != 4 * count * base.shape[1]:
        with path.open("wb") as file:
            for start in range(0, count, WRITTEN):
                jittered(base, min(WRITTEN, count - start), jitter, random).tofile(file)
    return np.memmap(path, np.float32, "r", shape=shape)


def exact_nearest(
    gallery: Gallery, queries: NDArray[np.float32], rows: NDArray[np.int64] | None, k: int
) -> list[NDArray[np.int64]]:
    """Return the k nearest rows of each query by comparing all."""
    allowed = np.arange(len(gallery)) if rows is None else rows
    products = np.concatenate([vectors @ queries.T for _, vectors in gallery.chunks(rows)])
    return [allowed[top_k(products[:, number], k)] for number in range(len(queries))]


def timed(work: Any) -> tuple[float, float, Any]:
    """Return wall and processor milliseconds of `work`, and its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000, result


def memory_mb(field: str) -> float:
    """Return a field of /proc/self/status in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1000


def measure(
    gallery: Gallery, queries: NDArray[np.float32], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Measure recall and times at several numbers of probes, and behind filters."""
    everything = len(gallery)
    filters = {"all": None, "one in three": np.arange(0, everything, 3)}
    results = []
    for name, rows in filters.items():
        exact = exact_nearest(gallery, queries, rows, options.k)
        for probes in options.probes:
            limits = CandidateLimits(1, 1, options.candidates, probes)
            recalls, times = [], {method: [] for method in ("find", *options.methods)}
            for query, nearest in zip(queries, exact, strict=True):
                index = gallery.candidates
                assert index is not None
                *find, found = timed(lambda: index.nearest(query, options.k, probes, rows))  # noqa: B023
                recalls.append(len(np.intersect1d(found, nearest)) / len(nearest))
                times["find"].append(find)
                for method in options.methods:

                    def search(method: str = method) -> Any:
                        ranking, _ = rank_candidates([query], gallery, rows, limits, 20)  # noqa: B023
                        return rerank_top(rerank.get(method), query, ranking, gallery, 20)  # noqa: B023

                    times[method].append(timed(search)[:2])
            row: dict[str, Any] = {"filter": name, "probes": probes, "recall": float(np.mean(recalls))}
            for method, measured in times.items():
                wall, cpu = np.median(measured[1:], axis=0)
                row |= {f"{method}_ms": float(wall), f"{method}_cpu_ms": float(cpu)}
            results.append(row)
            parts = "  ".join(
                f"{method} {row[f'{method}_cpu_ms']:.1f} ({row[f'{method}_ms']:.1f})" for method in times
            )
            print(f"{name:<13} probes {probes:4}  recall {row['recall']:.3f}  {parts}", flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument("--base", type=Path, help=".npy file with vectors (m, d) to jitter")
    parser.add_argument(
        "--jitter", type=float, default=0.6, help="length of the noise, in lengths of a vector"
    )
    parser.add_argument("--work", type=Path, default=Path("."), help="folder for vectors and index")
    parser.add_argument("--k", type=int, default=1000, help="nearest images to find")
    parser.add_argument("--candidates", type=int, default=5000, help="candidates to re-rank, plus a sample")
    parser.add_argument("--probes", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--queries", type=int, default=21)
    parser.add_argument("--methods", nargs="*", choices=rerank.names(), default=["none", "diffusion", "eprf"])
    options = parser.parse_args()
    base = base_vectors(options.base, options.dimensions)
    vectors = write_vectors(options.work / "vectors.f32", base, options.images, options.jitter)
    plain = Gallery((vectors,), np.arange(options.images), projected=True)
    path = options.work / "built.candidates"
    print(
        f"{options.images} images, {base.shape[1]} dimensions, {faiss.omp_get_max_threads()} threads",
        flush=True,
    )
    wall, cpu, index = timed(lambda: build_candidate_index(plain))
    peak = memory_mb("VmHWM")
    checksum = write_candidate_index(path, index)
    del index
    index = read_candidate_index(path, checksum, options.images, base.shape[1])
    built = {
        "build_s": wall / 1000,
        "build_cpu_s": cpu / 1000,
        "file_mb": path.stat().st_size / 1e6,
        "peak_mb": peak,
    }
    print(
        f"built in {wall / 1000:.0f} s, {cpu / 1000:.0f} s of a core; file {built['file_mb']:.0f} MB",
        flush=True,
    )
    gallery = Gallery(plain.blocks, plain.ids, projected=True, candidates=index)
    assert np.isfinite(gallery.squared_norms).all()  # computed once a snapshot
    queries = jittered(base, options.queries, options.jitter, np.random.default_rng(2))
    results = measure(gallery, queries, options)
    print(json.dumps({"bench": "candidate_index", "images": options.images, **built, "results": results}))


if __name__ == "__main__":
    main()
