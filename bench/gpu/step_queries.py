"""Searches as the product ranks them, on the GPU and on the CPU: index, sample, graph and re-ranking.

step_queries.py IMAGES QUERIES
"""

import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from drawn_collection import DrawnCollection, clustered, vectors_of
from step_results import GPU, attempt, report

from cbir import rerank
from cbir.rerank.ranked import rerank_top
from cbir.search import Request
from cbir.search.candidate_view import candidate_query
from cbir.search.searched_vectors import SearchedVectors
from cbir.store.index.port import IndexScope
from cbir.system.device import faiss_gpu_problem

K, ON_CPU = 100, 3  # hits; queries that the CPU answers, too
# `auto` last: its graph takes longest to make
METHODS = {"none": ("none", {}), "eprf": ("eprf", {}), "auto": ("auto", {})}
DEVICE: Any = "cuda" if GPU and faiss_gpu_problem() is None else "cpu"


def search(searched: SearchedVectors, method: str, query: np.ndarray) -> list[int]:
    """Return the best images, as `Searcher.rank` finds them."""
    name, parameters = METHODS[method]
    member, request = rerank.get(name, **parameters), Request(k=K)
    view = searched.of_view.for_search()
    needed = candidate_query(view, query[None, :], IndexScope(), request, member, searched.settings)
    candidates = searched.candidates(view, needed)
    gallery = candidates.view.gallery
    return rerank_top(member, query, candidates.ranking, gallery, K, candidates.hits).numbers.tolist()


def timed(searched: SearchedVectors, method: str, queries: np.ndarray) -> tuple[list[float], list[list[int]]]:
    """Return milliseconds and answers; the first query is asked twice more, to warm up."""
    times, answers = [], []
    for query in [queries[0], queries[0], *queries]:
        began = time.perf_counter()
        answers.append(search(searched, method, query))
        times.append(1000 * (time.perf_counter() - began))
    return times[2:], answers[2:]


def measure(
    mine: SearchedVectors, theirs: SearchedVectors, queries: np.ndarray, method: str
) -> dict[str, Any]:
    """Return times of a method on both devices, and the share of the first 100 that both find."""
    times, answers = timed(mine, method, queries)
    on_cpu, expected = timed(theirs, method, queries[:ON_CPU])
    same = [len(np.intersect1d(*both)) / K for both in zip(answers[:ON_CPU], expected, strict=True)]
    return {
        "images": len(mine.of_view),
        "on": mine.of_view.device,
        "median_ms": float(np.median(times)),
        "p95_ms": float(np.percentile(times, 95)),
        "cpu_ms": float(np.median(on_cpu)),
        "same": float(np.mean(same)),
    }


def main(images: int, count: int) -> None:
    vectors, queries = clustered(images, 1), clustered(count, 2)
    with tempfile.TemporaryDirectory() as folder:
        collection = DrawnCollection(vectors, Path(folder), linked=True)
        mine, theirs = vectors_of(collection, DEVICE), vectors_of(collection, "cpu")
        began = time.perf_counter()
        search(mine, "none", queries[0])
        report(f"copy.{images}", on=DEVICE, images=images, seconds=round(time.perf_counter() - began, 2))
        for method in METHODS:
            attempt(f"queries.{method}.{images}", partial(measure, mine, theirs, queries, method))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
