"""Delay of cancelled searches: time from the end of the limit until the search has ended, for every re-ranker.

The gallery and its graph are synthetic. Each method is cancelled at limits spread over the time of a whole search,
and one is repeated beside a search without re-ranking, whose result must not change.

    python bench/cancel.py [--images 1000000] [--limits 12]
"""

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cbir import rerank
from cbir.errors import QueryCancelled
from cbir.gallery.gallery import Gallery, rank
from cbir.gallery.knn import NEAREST, NearestNeighbours
from cbir.gallery.knn_graph import Neighbourhood
from cbir.rerank.diffusion import RelevanceFeedback
from cbir.rerank.feedback import Feedback
from cbir.system.threads import cores, time_limit

TARGET_MS = 250
CLUSTERS = 200
JUDGED = RelevanceFeedback(np.arange(10), np.where(np.arange(10) % 2, 1.0, -1.0))


def collection(count: int, dimensions: int) -> Gallery:
    """Return a gallery of clustered vectors (count, dimensions) of unit spread within a cluster."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((CLUSTERS, dimensions), dtype=np.float32)
    vectors = random.standard_normal((count, dimensions), dtype=np.float32)
    for rows in np.array_split(np.arange(count), max(1, count // 10_000)):
        vectors[rows] += centres[random.integers(0, CLUSTERS, len(rows))]
    return Gallery((vectors,), np.arange(count))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the milliseconds of `work`, and its result."""
    started = time.perf_counter()
    result = work()
    return (time.perf_counter() - started) * 1000, result


def linked(gallery: Gallery) -> Gallery:
    """Return the gallery with a graph of random neighbours: built in no time, and relevance flows everywhere."""
    random, count = np.random.default_rng(1), len(gallery)
    rows = random.integers(0, count, (count, NEAREST), dtype=np.int32)
    squared = np.sort(random.uniform(0.5, 2.0, rows.shape).astype(np.float32), axis=1)
    neighbours = NearestNeighbours(gallery.space, rows, squared, np.ones(count, np.float32))
    return replace(gallery, neighbourhood=Neighbourhood(neighbours))


def search(gallery: Gallery, method: str) -> np.ndarray:
    """Search with the first image of `gallery`; return the scores of all."""
    query = gallery.vectors(np.array([0]))[0]
    ranking = rank(query, gallery)
    if method == Feedback.name:
        return Feedback()(query[None], JUDGED, ranking, gallery).scores
    return rerank.get(method)(query, ranking, gallery).scores


def delay_ms(gallery: Gallery, method: str, seconds: float) -> float | None:
    """Return how long after its limit of `seconds` a search ends; None if it was faster."""
    started = time.perf_counter()
    try:
        with time_limit(seconds):
            search(gallery, method)
    except QueryCancelled:
        return 1000 * (time.perf_counter() - started - seconds)
    return None


def measure(gallery: Gallery, method: str, limits: int) -> dict[str, Any]:
    """Return the time of a search and the delays after `limits` time limits spread over it."""
    search(gallery, method)
    whole_ms, _ = timed(lambda: search(gallery, method))
    seconds = np.linspace(0.0, 0.95, limits) * whole_ms / 1000
    delays = [delay for each in seconds if (delay := delay_ms(gallery, method, float(each))) is not None]
    return {
        "method": method,
        "whole_ms": whole_ms,
        "cancelled": len(delays),
        "median_ms": float(np.median(delays)),
        "longest_ms": max(delays),
        "reached": max(delays) <= TARGET_MS,
    }


def disturbed(gallery: Gallery, searches: int) -> int:
    """Return how many of the `searches` without re-ranking differ while others are cancelled beside them."""
    expected, stop = search(gallery, "none"), threading.Event()

    def cancel_others() -> None:
        while not stop.is_set():
            delay_ms(gallery, "eprf", 0.05)

    thread = threading.Thread(target=cancel_others)
    thread.start()
    try:
        return sum(not np.array_equal(search(gallery, "none"), expected) for _ in range(searches))
    finally:
        stop.set()
        thread.join()


def main() -> None:
    """Measure all methods and print a table and one JSON line; exit code 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--dimensions", type=int, default=168)
    parser.add_argument("--limits", type=int, default=12, help="time limits for each method")
    options = parser.parse_args()
    gallery = linked(collection(options.images, options.dimensions))
    print(f"{options.images} images of {options.dimensions} values, {cores()} cores")
    print(f"{'method':<14}{'whole':>9}{'cancelled':>11}{'median':>9}{'longest':>9} ms after the limit")
    rows = []
    for method in (*rerank.names(), Feedback.name):
        rows.append(row := measure(gallery, method, options.limits))
        print(f"{method:<14}{row['whole_ms']:9.0f}{row['cancelled']:11}{row['median_ms']:9.1f}"
              f"{row['longest_ms']:9.1f}")  # fmt: skip
    different = disturbed(gallery, options.limits)
    print(f"searches beside cancelled ones: {options.limits}, with another result: {different}")
    facts = {"bench": "cancel", "images": options.images, "target_ms": TARGET_MS, "disturbed": different}
    print(json.dumps(facts | {"results": rows}))
    sys.exit(different > 0 or not all(row["reached"] for row in rows))


if __name__ == "__main__":
    main()
