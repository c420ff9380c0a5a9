"""How long whole-collection re-ranking takes on a device, and how near that is to what its memory and units allow.

Random vectors and, for diffusion, random neighbours. A query goes from its vector to the best k, one at a time, as
in a search. The floor is the larger of bytes over measured bandwidth and operations over the measured rate of
products.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from query import collection, timed

from cbir import rerank
from cbir.gallery.gallery import Gallery
from cbir.gallery.knn import NEAREST, NearestNeighbours
from cbir.gallery.live_graph import Neighbourhood
from cbir.gallery.ranking import rank, top_k
from cbir.gpu import faiss_index
from cbir.gpu.accelerator import Accelerator
from cbir.gpu.nearest_index import NearestIndex
from cbir.hardware import resolve_device
from cbir.rerank.top_hits import rerank_top

INDEXES = ("flat", "ivf")
# Passes over all vectors; floats an image read or written beside them (norms, lists, lengths, scores), each once.
TRAFFIC = {
    "aqe": (2, 6),
    "nprf": (2, 8),
    "eprf": (2, 8),
    "nsu-eprf": (2, 8),
    "svm-eprf": (2, 8),
    "diffusion": (1, 5),
}
OF_THE_TOP = (1, 3)
MACHINES = ("eprf", "nsu-eprf", "svm-eprf", "nprf")


def linked(gallery: Gallery) -> Gallery:
    """The gallery with NEAREST random neighbours an image, which is what a query needs to find nothing in cache."""
    random, n = np.random.default_rng(2), len(gallery)
    rows = random.integers(0, n, (n, NEAREST), dtype=np.int32)
    squared = np.sort(random.uniform(0.2, 1.0, (n, NEAREST)).astype(np.float32), axis=1)
    space = gallery.space_of(np.arange(n))
    lengths = np.empty(n, np.float32)
    for where, vectors in gallery.chunks():
        lengths[where] = space.transform(vectors)[1]
    return replace(gallery, neighbourhood=Neighbourhood(NearestNeighbours(space, rows, squared, lengths)))


def fastest(work: Callable[[], Any], device: str, times: int = 10) -> float:
    """Seconds of the fastest of some runs."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - started)
    return min(found[1:])


def bandwidth(device: str) -> float:
    """Bytes a second of a copy, read and written, far larger than any cache."""
    size = 2**30 if device == "cuda" else 2**24
    source = torch.zeros(size, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / fastest(lambda: target.copy_(source), device)


def product_rate(device: str, half: bool) -> float:
    """Operations a second of a square matrix product in the precision of the vectors."""
    size = 8192 if device == "cuda" else 768
    dtype = torch.float16 if half and device == "cuda" else torch.float32
    left = torch.ones(size, size, dtype=dtype, device=device)
    return 2.0 * size**3 / fastest(lambda: left @ left, device)


def work(method: str, n: int, d: int, bytes_a_value: int, member: Any) -> tuple[float, float]:
    """Bytes moved and operations of one query, if nothing is read twice within a pass and nothing kept between."""
    passes, floats = TRAFFIC.get(method, OF_THE_TOP)
    columns = (2 if method in ("diffusion", "aqe") else 1) * (
        2 if bytes_a_value == 2 else 1
    )  # see `products`
    operations = 2.0 * n * d * columns
    if method in MACHINES:
        nprf = method == "nprf"  # with the query among the positives, and as many negatives
        learnt_from = (member.P + 1) * (member.T + 1) if nprf else member.P * (member.T2 + 1)
        operations += 2.0 * n * d * learnt_from
    return n * (d * bytes_a_value * passes + 4.0 * floats), operations


def measure(search: Callable[[np.ndarray], Any], queries: np.ndarray) -> tuple[dict[str, float], list[Any]]:
    """Median and 95th percentile in ms; the first two queries warm up."""
    times, found = [], []
    for query in [queries[0], queries[0], *queries]:
        ms, answer = timed(lambda: search(query))  # noqa: B023
        times.append(ms)
        found.append(answer)
    return {"median_ms": float(np.median(times[2:])), "p95_ms": float(np.percentile(times[2:], 95))}, found[
        2:
    ]


def same(found: list[Any], gallery: Gallery, queries: np.ndarray, member: Any, k: int) -> float:
    """Share of the best k that the numpy path finds too, whatever their order."""
    shared = 0
    for query, answer in zip(queries, found, strict=True):
        ranking = rank(query, gallery)
        expected = ranking.rows[top_k(member(query, ranking, gallery).scores, k)]
        shared += len(np.intersect1d(expected, answer.rows))
    return shared / (k * len(queries))


def by_index(kind: Any, device: str, gallery: Gallery, k: int) -> Callable[[np.ndarray], Any]:
    """A search without re-ranking through a FAISS index, which is built now."""
    index, none = NearestIndex(kind, device), rerank.get("none")

    def search(query: np.ndarray) -> Any:
        return rerank_top(none, query, index.head(query, gallery, None, k), gallery, k)

    search(gallery.vectors(np.array([0]))[0])
    return search


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000])
    options.add_argument("--dimensions", type=int, default=168)
    options.add_argument("--queries", type=int, default=20)
    options.add_argument("--k", type=int, default=100, help="places asked for")
    options.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    options.add_argument("--precision", choices=("half", "float32"), default="half")
    options.add_argument("--methods", nargs="+", choices=(*rerank.names(), *INDEXES), default=rerank.names())
    options.add_argument("--compare", type=int, default=0, help="largest size compared with the numpy path")
    asked = options.parse_args()
    device, half = resolve_device(asked.device), asked.precision == "half"
    bytes_a_second, rate = bandwidth(device), product_rate(device, half)
    name = (
        torch.cuda.get_device_name() if device == "cuda" else f"processor, {torch.get_num_threads()} threads"
    )
    print(f"{name}, torch {torch.__version__}: {bytes_a_second / 1e9:.0f} GB/s, {rate / 1e12:.2f} TFLOP/s")
    place = "the processor" if faiss_index.missing_gpu_support() else device
    print(f"vectors in {asked.precision}, {asked.dimensions} dimensions; indexes of FAISS on {place}")
    print(f"{'images':>9} {'method':<12} {'median':>8} {'p95':>8} {'MB moved':>9} {'GFLOP':>8} {'floor':>7} "
          f"{'ratio':>6}  same")  # fmt: skip
    results = []
    for n in asked.sizes:
        gallery = collection(n, asked.dimensions)
        queries = collection(asked.queries, asked.dimensions).blocks[0] + np.float32(0.25)
        if "diffusion" in asked.methods:
            gallery = linked(gallery)
        accelerator = Accelerator(device, half, least=1)
        for method in asked.methods:
            member = rerank.get("none" if method in INDEXES else method)
            if method in INDEXES:
                search = by_index(method, "cpu" if faiss_index.missing_gpu_support() else device, gallery, asked.k)
            else:
                search = lambda query: accelerator.search(query, gallery, None, member, asked.k)  # noqa: B023, E731
            times, found = measure(search, queries)
            moved, operations = work(
                method, n, asked.dimensions, 2 if half and method not in INDEXES else 4, member
            )
            floor = 1000 * max(moved / bytes_a_second, operations / rate)
            row = {"images": n, "method": method} | times | {
                "bytes": moved, "operations": operations, "floor_ms": floor, "ratio": times["median_ms"] / floor,
            }  # fmt: skip
            if n <= asked.compare:
                row["same"] = same(found, gallery, queries, member, asked.k)
            results.append(row)
            print_row(row)
    machine = {"device": name, "bytes_a_second": bytes_a_second, "operations_a_second": rate}
    print(json.dumps({"bench": "query_gpu", "precision": asked.precision} | machine | {"results": results}))


def print_row(row: dict[str, Any]) -> None:
    agreement = f"{row['same']:6.1%}" if "same" in row else "     -"
    print(f"{row['images']:9} {row['method']:<12} {row['median_ms']:8.2f} {row['p95_ms']:8.2f} "
          f"{row['bytes'] / 1e6:9.1f} {row['operations'] / 1e9:8.2f} {row['floor_ms']:7.2f} {row['ratio']:6.1f} "
          f"{agreement}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
