"""Time and recall of the k-NN graph of a large collection, and of the inverted file of FAISS in the same run."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from cbir.gallery import knn
from cbir.gallery.vector_blocks import Floats, plain_space, spread_rows

CHECKED = 1000  # images whose neighbours are compared with the exact ones
PEER_PROBES = 16  # lists of the inverted file that a search reads
BASE = 10_000  # synthetic vectors to jitter


def base_vectors(path: Path | None, dimensions: int) -> Floats:
    """Load the vectors to jitter, or make clusters of clusters."""
    if path:
        return np.load(path).astype(np.float32)
    random = np.random.default_rng(0)
    centres = random.standard_normal((30, dimensions), dtype=np.float32)
    inner = centres[random.integers(0, 30, 500)] + 0.7 * random.standard_normal((500, dimensions), np.float32)
    return inner[random.integers(0, 500, BASE)] + 0.4 * random.standard_normal((BASE, dimensions), np.float32)


def jittered(base: Floats, count: int, jitter: float, random: np.random.Generator) -> Floats:
    """Return `count` noisy copies of random rows of `base`, of length 1; the noise is `jitter` of a row's length."""
    rows = base[random.integers(0, len(base), count)]
    noise = random.standard_normal(rows.shape, dtype=np.float32) * np.float32(jitter / rows.shape[1] ** 0.5)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) + noise
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def by_inverted_file(vectors: Floats, rows: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    """Return the neighbours (n, k) of unit vectors (n, d), or of some rows, by an inverted file of half precision."""
    count, dimensions = vectors.shape
    lists = 2 * int(np.sqrt(count))
    flat = faiss.IndexFlatL2(dimensions)
    index = faiss.IndexIVFScalarQuantizer(flat, dimensions, lists, faiss.ScalarQuantizer.QT_fp16)
    index.cp.niter, index.cp.max_points_per_centroid, index.nprobe = 6, 64, PEER_PROBES
    index.train(vectors[spread_rows(count, 64 * lists)])
    index.add(vectors)
    rows = np.arange(count) if rows is None else rows
    nearest = index.search(vectors if len(rows) == count else vectors[rows], knn.NEAREST + 1)[1]
    order = np.argsort(nearest == rows[:, None], axis=1, kind="stable")[:, : knn.NEAREST]
    return np.take_along_axis(nearest, order, axis=1)


def by_lists(vectors: Floats) -> np.ndarray[Any, Any]:
    """Return the neighbours (n, k) of unit vectors (n, d) as a snapshot stores them."""
    return knn.find_neighbours(vectors, plain_space(vectors.shape[1])).rows


METHODS = {"lists": by_lists, "inverted file": by_inverted_file}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, nargs="+", default=[50_000])
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument("--base", type=Path, help=".npy file with vectors (m, d) to jitter")
    parser.add_argument(
        "--jitter", type=float, default=0.6, help="length of the noise, in lengths of a vector"
    )
    parser.add_argument("--peer", action="store_true", help="also search the inverted file")
    parser.add_argument("--peer-recall", action="store_true", help="only the recall of the inverted file")
    options = parser.parse_args()
    base, results = base_vectors(options.base, options.dimensions), []
    for count in options.images:
        vectors = jittered(base, count, options.jitter, np.random.default_rng(1))
        checked = spread_rows(count, CHECKED)
        flat = faiss.IndexFlatL2(vectors.shape[1])
        flat.add(vectors)
        exact = flat.search(vectors[checked], knn.NEAREST + 1)[1]
        for method, find in METHODS.items() if options.peer else [("lists", by_lists)]:
            wall, cpu = time.perf_counter(), time.process_time()
            rows = find(vectors)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            recall = recall_of(rows[checked], exact, checked)
            print(
                f"{count:9} {method:<14} {wall:8.1f} s, {cpu:8.1f} s of a core, recall {recall:.4f}",
                flush=True,
            )
            results.append({"images": count, "method": method, "s": wall, "cpu_s": cpu, "recall": recall})
        if options.peer_recall:
            recall = recall_of(by_inverted_file(vectors, checked), exact, checked)
            print(f"{count:9} inverted file, recall {recall:.4f}", flush=True)
            results.append({"images": count, "method": "inverted file", "recall": recall})
    print(json.dumps({"bench": "knn_graph", "dimensions": base.shape[1], "results": results}))


def recall_of(found: np.ndarray[Any, Any], exact: Any, rows: Any) -> float:
    """Return the share of the exact neighbours that is among those found for some rows (m, k)."""
    shared = [
        len(np.intersect1d(own, nearest)) for own, nearest in zip(found, _by_rank(exact, rows), strict=True)
    ]
    return float(np.mean(shared)) / knn.NEAREST


def _by_rank(exact: Any, rows: Any) -> list[Any]:
    """Return the neighbours of each of `rows` without itself, nearest first."""
    return [nearest[nearest != row][: knn.NEAREST] for nearest, row in zip(exact, rows, strict=True)]


if __name__ == "__main__":
    main()
