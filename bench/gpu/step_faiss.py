"""FAISS on the GPU as the product searches it: neighbours as by comparing all vectors, filters, times, the graph."""

import time
from typing import Any

import faiss
import numpy as np
from drawn_collection import DIMENSIONS, clustered
from step_results import GPU, SMALL, attempt, report, without_gpu

from cbir.gallery.code_index import CodeIndex, build_codes
from cbir.gallery.flat_index import GpuFlatIndex
from cbir.gallery.knn import NEAREST, find_neighbours
from cbir.gallery.vector_blocks import plain_space
from cbir.system.device import faiss_gpu_problem

COUNT, QUERIES, COMPARED = (20_000 if SMALL else 1_000_000), 20, 500
LENGTHS = (100, 2000, 5000)  # of lists: hits, the head that relevance flows from, the candidates
FILTERS = {"half": 2, "third": 3}  # every so many images pass


def exact(flat: Any, queries: np.ndarray, count: int, allowed: np.ndarray | None = None) -> np.ndarray:
    """Return the nearest rows in single precision."""
    selector = None if allowed is None else faiss.IDSelectorBatch(allowed)
    return np.asarray(flat.search(queries, count, params=faiss.SearchParameters(sel=selector))[1])


def milliseconds(search: Any, queries: np.ndarray) -> float:
    """Return the median time of a search; the first query warms up."""
    times = []
    for query in [queries[0], *queries]:
        began = time.perf_counter()
        search(query)
        times.append(1000 * (time.perf_counter() - began))
    return round(float(np.median(times[1:])), 3)


def lists(vectors: np.ndarray, queries: np.ndarray) -> dict[str, Any]:
    """Return recall and times of lists on both devices, and how long the copy takes."""
    index, flat = GpuFlatIndex(), faiss.IndexFlatL2(DIMENSIONS)
    flat.add(vectors)
    on_cpu = CodeIndex(flat, vectors, build_codes(vectors))
    began = time.perf_counter()
    index.nearest(vectors, queries[0], 10)
    facts: dict[str, Any] = {"copy_seconds": round(time.perf_counter() - began, 2)}
    for count in LENGTHS:
        found = [index.nearest(vectors, query, count) for query in queries]
        facts[f"recall_{count}"] = recall(found, exact(flat, queries, count))
        facts[f"ms_{count}"] = milliseconds(lambda query: index.nearest(vectors, query, count), queries)  # noqa: B023
        facts[f"cpu_ms_{count}"] = milliseconds(lambda query: on_cpu.nearest(query, count), queries[:5])  # noqa: B023
    for name, step in FILTERS.items():
        rows = np.arange(0, len(vectors), step)
        found = [index.nearest(vectors, query, 5000, rows) for query in queries[:5]]
        facts[f"recall_{name}"] = recall(found, exact(flat, queries[:5], 5000, rows))
        facts[f"obeyed_{name}"] = all(np.isin(each, rows).all() for each in found if each is not None)
        facts[f"ms_{name}"] = milliseconds(lambda query: index.nearest(vectors, query, 5000, rows), queries)  # noqa: B023
    return facts


def recall(found: list[np.ndarray | None], expected: np.ndarray) -> float:
    """Return the share of the nearest rows that were found; a list that is left to the CPU has none."""
    shares = [
        0.0 if rows is None else len(np.intersect1d(rows, nearest)) / len(nearest)
        for rows, nearest in zip(found, expected, strict=True)
    ]
    return round(float(np.mean(shares)), 5)


def graph(vectors: np.ndarray) -> dict[str, Any]:
    """Return how long the graph of neighbours takes, and the share of neighbours that are the nearest."""
    began = time.perf_counter()
    neighbours = find_neighbours(vectors, plain_space(DIMENSIONS), "cuda" if GPU else "cpu")
    seconds, flat = time.perf_counter() - began, faiss.IndexFlatL2(DIMENSIONS)
    flat.add(vectors)
    rows = np.linspace(0, len(vectors) - 1, COMPARED).astype(np.int64)
    nearest = exact(flat, vectors[rows], NEAREST + 1)
    others = [near[near != row][:NEAREST] for row, near in zip(rows, nearest, strict=True)]
    return {
        "seconds": round(seconds, 2),
        "nearest": recall(list(neighbours.rows[rows]), np.stack(others)),
        "images": len(vectors),
    }


def main() -> None:
    problem = faiss_gpu_problem()
    report("faiss.device", device="cpu" if problem else "cuda", gpu=GPU, images=COUNT, problem=problem)
    vectors, queries = clustered(COUNT, 1), clustered(QUERIES, 2)
    if not without_gpu("faiss.lists") and problem is None:
        attempt("faiss.lists", lambda: lists(vectors, queries))
    attempt("faiss.graph", lambda: graph(vectors))


if __name__ == "__main__":
    main()
