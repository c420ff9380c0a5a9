"""Searches of a large collection through its vector index, end to end: time to build, recall, rates, and `auto`.

The collection has drawn vectors (see `bench/scale_collection.py`); it is written, indexed and searched as the product
does it, in this process. Milvus is a server beside it. A collection that is there already is used again.

    python -m bench.scale_search --fitted-to COLLECTION --folder FOLDER [--images 1000000] [--index hnsw]
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import psutil
from tqdm import tqdm

from bench.scale import rate_of_clients, read_vectors
from bench.scale_collection import Mixture, as_raw, drawn_blocks, fit_mixture, write_collection
from bench.scale_engines import folder_size
from cbir.gallery.vector_blocks import Floats
from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.index.open_index import CollectionIndex
from cbir.store.index.port import IndexScope, Numbers
from cbir.store.records.filter_conditions import Condition
from tests.milvus_server import MilvusServer

FIRST = 100  # nearest images that recall is of
SCOPES = {"": IndexScope(), "_filtered": IndexScope((Condition("rare", "=", "yes"),))}
METHODS = ("none", "auto", "eprf")


def exact_nearest(mixture: Mixture, images: int, queries: Floats, rare: bool) -> Numbers:
    """Return the numbers (q, FIRST) of the nearest images, by comparing all, block by block."""
    best = np.full((len(queries), 0), np.inf, np.float32), np.empty((len(queries), 0), np.int64)
    for start, vectors in tqdm(drawn_blocks(mixture, images), desc="exact", leave=False):
        rows = np.arange(99 - start % 100, len(vectors), 100) if rare else np.arange(len(vectors))
        squared, places = faiss.knn(queries, vectors[rows], min(FIRST, len(rows)))
        squared, numbers = np.hstack([best[0], squared]), np.hstack([best[1], rows[places] + start + 1])
        order = np.argsort(squared, axis=1)[:, :FIRST]
        best = np.take_along_axis(squared, order, 1), np.take_along_axis(numbers, order, 1)
    return best[1]


def recall(answers: list[Numbers], exact: Numbers) -> float:
    """Return the share of the exact nearest images that are among the first answers."""
    shares = [
        len(np.intersect1d(found[:FIRST], best)) / len(best)
        for found, best in zip(answers, exact, strict=True)
    ]
    return float(np.mean(shares))


@contextmanager
def running_engine(kind: str) -> Iterator[tuple[str, psutil.Process]]:
    """Start the server of an engine that needs one; yields the setting `index`, and the process with its memory."""
    if kind != "milvus":
        yield kind, psutil.Process()
        return
    server = MilvusServer()
    try:
        yield server.address, psutil.Process(server.pid)
    finally:
        server.stop()


def build(index: CollectionIndex, images: int) -> dict[str, float]:
    """Fill the index as the service does, with progress."""
    started, cpu = time.perf_counter(), time.process_time()
    with tqdm(total=images, unit="image", desc="index") as progress:
        while not index.follower.follow(progress=lambda done, _: progress.update(done - progress.n)):
            time.sleep(1)
    return {"build_s": time.perf_counter() - started, "build_cpu_s": time.process_time() - cpu}


def measure_index(
    index: CollectionIndex, queries: Floats, exact: dict[str, Numbers], seconds: float
) -> dict[str, Any]:
    """Measure recall, and queries a second of 1, 8 and 32 clients, of the FIRST nearest images."""
    figures: dict[str, Any] = {}
    for suffix, scope in SCOPES.items():
        answers = [index.vectors.nearest(query[None], FIRST, scope)[0].numbers for query in queries]
        figures[f"recall{suffix}"] = recall(answers, exact[suffix])
        for clients in (1, 8, 32):
            qps, milliseconds = rate_of_clients(
                lambda query, scope=scope: index.vectors.nearest(query, FIRST, scope),
                queries,
                clients,
                seconds,
            )
            figures |= {f"qps_{clients}{suffix}": qps, f"ms_{clients}{suffix}": milliseconds}
    return figures


def measure_searches(searcher: Searcher, queries: Floats, exact: Numbers) -> dict[str, Any]:
    """Measure whole searches for 20 answers one after the other, and the recall of their candidates."""
    assert searcher.vector_index is not None
    count = searcher.settings.indexed_candidates
    candidates = [
        searcher.vector_index.vectors.nearest(query[None], count + 1, SCOPES[""])[0].numbers
        for query in queries
    ]
    figures: dict[str, Any] = {"candidates": count, "recall_of_candidates": recall(candidates, exact)}
    raw = as_raw(queries)
    for method in METHODS:
        request, times, cpu = Request(k=20, rerank=method), [], []
        for vector in [raw[0], *raw]:  # the first one loads what all searches share
            started, used = time.perf_counter(), time.process_time()
            searcher.by_examples([], request, Stopwatch(), vectors=vector)
            times.append(1000 * (time.perf_counter() - started))
            cpu.append(1000 * (time.process_time() - used))
        figures[method] = {
            "median_ms": float(np.median(times[1:])), "p95_ms": float(np.quantile(times[1:], 0.95)),
            "median_cpu_ms": float(np.median(cpu[1:])),
        }  # fmt: skip
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fitted-to", type=Path, required=True, help="collection whose vectors are imitated")
    parser.add_argument(
        "--folder", type=Path, required=True, help="of the large collection, which stays there"
    )
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--index", choices=["hnsw", "ivf", "milvus"], default="hnsw")
    parser.add_argument("--candidates", type=int, help="setting indexed_candidates; its default")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5, help="that each number of clients asks")
    options = parser.parse_args()
    mixture = fit_mixture(read_vectors(options.fitted_to))
    if not Collection.exists(options.folder):
        write_collection(options.folder, mixture, options.images)
    queries = mixture.draw(options.queries, np.random.default_rng(2))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    exact = {suffix: exact_nearest(mixture, options.images, queries, bool(suffix)) for suffix in SCOPES}
    with running_engine(options.index) as (setting, process), Collection(options.folder) as collection:
        given = {} if options.candidates is None else {"indexed_candidates": options.candidates}
        settings = Settings(index=setting, device="cpu", **given)
        before, searcher = process.memory_info().rss, Searcher(collection, settings)
        assert searcher.vector_index is not None
        figures: dict[str, Any] = {"index": options.index, "images": options.images}
        figures |= build(searcher.vector_index, options.images)
        figures["memory_mb"] = (process.memory_info().rss - before) / 1e6
        figures["disk_mb"] = folder_size(options.folder / "vector_index") / 1e6
        print(json.dumps(figures), flush=True)
        figures |= measure_index(searcher.vector_index, queries, exact, options.seconds)
        print(json.dumps(figures), flush=True)
        figures |= measure_searches(searcher, queries, exact[""])
        figures["load"] = os.getloadavg()[0]
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
