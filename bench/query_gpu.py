"""Time of whole-collection re-ranking on a device, compared with the lower bound of its bandwidth and arithmetic.

Vectors are random, and so are neighbours for diffusion. Queries run one at a time, from the vector to the best k, as
in a search. The bound is the larger of bytes over measured bandwidth and operations over the measured rate of matrix
products.
"""

import argparse
import json
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cbir.gpu.accelerator import Accelerator
from cbir.gpu.nearest_index import NearestIndex
from query import collection, timed

from cbir import rerank
from cbir.gallery.gallery import Gallery
from cbir.gallery.knn import NEAREST, NearestNeighbours
from cbir.gallery.live_graph import Neighbourhood
from cbir.gallery.ranking import rank, top_k
from cbir.hardware.device import faiss_gpu_problem, resolve_device
from cbir.rerank.auto import MUTUAL
from cbir.rerank.reranker import Reranker
from cbir.rerank.top_hits import rerank_top

INDEXES = ("flat", "ivf")
DEFAULT = "auto"  # as collections of encoders choose it
# Passes over all vectors; floats an image read or written beside them (norms, lists, lengths, scores), each once.
TRAFFIC = {
    "aqe": (2, 6),
    "nprf": (2, 8),
    "eprf": (2, 8),
    "nsu-eprf": (2, 8),
    "svm-eprf": (2, 8),
    "fuzzy-eprf": (2, 8),
    "diffusion": (1, 5),
    DEFAULT: (1, 5),
}
OF_THE_TOP = (1, 3)
SVM_METHODS = ("eprf", "nsu-eprf", "svm-eprf", "fuzzy-eprf", "nprf")


def linked(gallery: Gallery) -> Gallery:
    """Return the gallery with NEAREST neighbours per image, those beside it in a ring of random order.

    A query finds nothing in cache, and relevance comes back to where it starts, as in a graph of real neighbours.
    """
    random, n = np.random.default_rng(2), len(gallery)
    ring = random.permutation(n).astype(np.int32)
    rows = np.empty((n, NEAREST), np.int32)
    for column in range(NEAREST):
        step = (column // 2 + 1) * (1 if column % 2 else -1)
        rows[ring, column] = np.roll(ring, step)
    squared = np.sort(random.uniform(0.2, 1.0, (n, NEAREST)).astype(np.float32), axis=1)
    space = gallery.space_of(np.arange(n))
    lengths = np.empty(n, np.float32)
    for part, vectors in gallery.chunks():
        lengths[part] = space.transform(vectors)[1]
    return replace(gallery, neighbourhood=Neighbourhood(NearestNeighbours(space, rows, squared, lengths)))


def fastest(work: Callable[[], Any], device: str, times: int = 10) -> float:
    """Return the seconds of the fastest of `times` runs of `work` on `device`."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])


def bandwidth(device: str) -> float:
    """Return the bytes per second of a copy, read and written, far larger than any cache."""
    size = 2**30 if device == "cuda" else 2**24
    source = torch.zeros(size, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / fastest(lambda: target.copy_(source), device)


def product_rate(device: str, half: bool) -> float:
    """Return the operations per second of a square matrix product in the precision of the vectors."""
    size = 8192 if device == "cuda" else 768
    dtype = torch.float16 if half and device == "cuda" else torch.float32
    left = torch.ones(size, size, dtype=dtype, device=device)
    return 2.0 * size**3 / fastest(lambda: left @ left, device)


def work(method: str, n: int, d: int, bytes_a_value: int, member: Any) -> tuple[float, float]:
    """Return bytes moved and operations of one query, with nothing read twice within a pass or cached between.

    Parameters
    ----------
    method : str
        Name of the re-ranker or index.
    n, d : int
        Number of images, and of dimensions.
    bytes_a_value : int
        Of a stored value.
    member : Reranker
        The re-ranker.
    """
    passes, floats = TRAFFIC.get(method, OF_THE_TOP)
    columns = (2 if method in ("diffusion", DEFAULT, "aqe") else 1) * (
        2 if bytes_a_value == 2 else 1
    )  # see `products`
    operations = 2.0 * n * d * columns
    if method in SVM_METHODS:
        nprf = method == "nprf"  # the query is one more positive, and there are as many negatives
        examples = (member.P + 1) * (member.T + 1) if nprf else member.P * (member.T2 + 1)
        operations += 2.0 * n * d * examples
    return n * (d * bytes_a_value * passes + 4.0 * floats), operations


def measure(search: Callable[[np.ndarray], Any], queries: np.ndarray) -> tuple[dict[str, float], list[Any]]:
    """Return median and 95th percentile in ms, and the results; the first two queries warm up."""
    times, results = [], []
    for query in [queries[0], queries[0], *queries]:
        ms, answer = timed(lambda: search(query))  # noqa: B023
        times.append(ms)
        results.append(answer)
    return {"median_ms": float(np.median(times[2:])), "p95_ms": float(np.percentile(times[2:], 95))}, results[
        2:
    ]


def overlap(
    results: list[Any], gallery: Gallery, queries: np.ndarray, rankings: list[Any], member: Any, k: int
) -> float:
    """Return the share of the best k that the NumPy path finds too, in any order.

    Parameters
    ----------
    results : list of TopHits
        Results of the queries on the device.
    gallery : Gallery
        Vectors.
    queries : (q, d) float32
        Query vectors.
    rankings : list of RankingList
        Their ranking lists; computed if there are none yet.
    member : Reranker
        The re-ranker.
    k : int
        Number of hits.
    """
    if not rankings:
        rankings += [rank(query, gallery) for query in queries]
    shared = 0
    for query, ranking, answer in zip(queries, rankings, results, strict=True):
        expected = ranking.rows[top_k(member(query, ranking, gallery).scores, k)]
        shared += len(np.intersect1d(expected, answer.rows))
    return shared / (k * len(queries))


def by_index(kind: Any, device: str, gallery: Gallery, k: int) -> Callable[[np.ndarray], Any]:
    """Return a search without re-ranking through a FAISS index, which is built first.

    Parameters
    ----------
    kind : "flat" or "ivf"
        Type of the index.
    device : str
        Where to search.
    gallery : Gallery
        Vectors.
    k : int
        Number of hits.
    """
    index, none = NearestIndex(kind, device), rerank.get("none")

    def search(query: np.ndarray) -> Any:
        return rerank_top(none, query, index.head(query, gallery, None, k), gallery, k)

    search(gallery.vectors(np.array([0]))[0])
    return search


def method_named(name: str) -> Reranker:
    """Return the re-ranker that is measured under `name`: none for an index."""
    if name == DEFAULT:
        return rerank.get("diffusion", **MUTUAL)
    return rerank.get("none" if name in INDEXES else name)


class Bench:
    """Searches of one size. rankings: lists of the queries by numpy, filled at first use; None to compare nothing."""

    def __init__(
        self, device: str, half: bool, k: int, gallery: Gallery, queries: np.ndarray, rankings: list[Any] | None
    ) -> None:  # fmt: skip
        self.k, self.gallery, self.queries, self.rankings = k, gallery, queries, rankings
        self.bytes_a_value = 2 if half else 4
        self.accelerator = Accelerator(device, half)

    def measured(self, method: str, device: str, bytes_a_second: float, rate: float) -> dict[str, Any]:
        """Return times of a method or index, their bound, and the share of hits that numpy finds too.

        Parameters
        ----------
        method : str
            Name of a re-ranker or index.
        device : str
            Where an index searches.
        bytes_a_second, rate : float
            Bandwidth, and operations a second.
        """
        member, n, d = method_named(method), len(self.gallery), self.gallery.dimensions
        if method in INDEXES:
            search = by_index(method, device, self.gallery, self.k)
        else:
            search = partial(self._by_accelerator, member)
        times, hits = measure(search, self.queries)
        moved, operations = work(method, n, d, 4 if method in INDEXES else self.bytes_a_value, member)
        floor = 1000 * max(moved / bytes_a_second, operations / rate)
        row = times | {"bytes": moved, "operations": operations, "floor_ms": floor}
        row["ratio"] = times["median_ms"] / floor
        if self.rankings is not None:
            row["same"] = overlap(hits, self.gallery, self.queries, self.rankings, member, self.k)
        return row

    def _by_accelerator(self, member: Reranker, query: np.ndarray) -> Any:
        hits = self.accelerator.search(query, self.gallery, None, member, self.k)
        if hits is None:
            raise RuntimeError("the device leaves this method to the CPU")
        return hits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--dimensions", type=int, default=168)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--k", type=int, default=100, help="number of hits")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--precision", choices=("half", "float32"), default="half")
    parser.add_argument(
        "--methods", nargs="+", choices=(DEFAULT, *rerank.names(), *INDEXES), default=rerank.names()
    )
    parser.add_argument("--compare", type=int, default=0, help="largest size compared with the numpy path")
    parser.add_argument(
        "--out", type=Path, help="file that each row is added to as a line of JSON, once measured"
    )
    options = parser.parse_args()
    device, half = resolve_device(options.device), options.precision == "half"
    bytes_a_second, rate = bandwidth(device), product_rate(device, half)
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}: {bytes_a_second / 1e9:.0f} GB/s, {rate / 1e12:.2f} TFLOP/s")
    index_device = "the CPU" if faiss_gpu_problem() else device
    print(
        f"vectors in {options.precision}, {options.dimensions} dimensions; indexes of FAISS on {index_device}"
    )
    print(f"{'images':>9} {'method':<12} {'median':>8} {'p95':>8} {'MB moved':>9} {'GFLOP':>8} {'floor':>7} "
          f"{'ratio':>6}  same")  # fmt: skip
    results = []
    for n in options.sizes:
        gallery = collection(n, options.dimensions)
        queries = collection(options.queries, options.dimensions).blocks[0] + np.float32(0.25)
        if {"diffusion", DEFAULT} & set(options.methods):
            gallery = linked(gallery)
        bench = Bench(device, half, options.k, gallery, queries, [] if n <= options.compare else None)
        for method in options.methods:
            searched_on = "cpu" if method in INDEXES and faiss_gpu_problem() else device
            found: dict[str, Any] = {"images": n, "method": method}
            try:
                found |= bench.measured(method, searched_on, bytes_a_second, rate)
                results.append(found)
                print_row(found)
            except Exception as error:  # a method that fails costs no other
                traceback.print_exc()
                found |= {"failed": f"{type(error).__name__}: {str(error).strip()[-300:]}"}
            if options.out:
                with options.out.open("a") as file:
                    print(json.dumps({"step": f"query_gpu.{method}", "on": searched_on} | found), file=file)
    machine = {"device": name, "bytes_a_second": bytes_a_second, "operations_a_second": rate}
    print(json.dumps({"bench": "query_gpu", "precision": options.precision} | machine | {"results": results}))


def print_row(row: dict[str, Any]) -> None:
    agreement = f"{row['same']:6.1%}" if "same" in row else "     -"
    print(f"{row['images']:9} {row['method']:<12} {row['median_ms']:8.2f} {row['p95_ms']:8.2f} "
          f"{row['bytes'] / 1e6:9.1f} {row['operations'] / 1e9:8.2f} {row['floor_ms']:7.2f} {row['ratio']:6.1f} "
          f"{agreement}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
