"""Vector indexes of large collections: time to fill, memory, disk, recall, and queries a second with many clients.

The vectors are drawn from a mixture fitted to those of a collection. Every engine holds the same ones; clients are
threads of this process, on the machine of the servers.

    python -m bench.scale --collection FOLDER [--images 100000] [--engines hnsw ivf pgvector milvus]
"""

import argparse
import json
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from bench.scale_collection import describe_neighbours, fit_mixture
from bench.scale_engines import ENGINES, RARE, Engine
from cbir.gallery.vector_blocks import Floats
from cbir.store import Collection
from cbir.store.index.port import IndexScope, Numbers

EVERYTHING = IndexScope()
SHARE = 0.01  # of the images that the filter leaves


def read_vectors(folder: Path) -> Floats:
    """Return the normalised vectors of a collection."""
    gallery = Collection(folder).view().gallery
    return np.concatenate([vectors for _, vectors in gallery.chunks(None)])


def exact_nearest(vectors: Floats, queries: Floats, k: int, numbers: Numbers) -> Numbers:
    """Return the numbers of the k nearest of some images, by comparing all of them."""
    places = faiss.knn(queries, vectors[numbers - 1], k)[1]
    return numbers[places]


def recall(engine: Engine, queries: Floats, exact: Numbers, scope: IndexScope) -> float:
    """Return the share of the exact nearest that the engine finds."""
    found = engine.index.nearest(queries, exact.shape[1], scope)
    shared = [len(np.intersect1d(one.numbers, best)) for one, best in zip(found, exact, strict=True)]
    return float(np.mean(shared)) / exact.shape[1]


def rate_of_clients(
    ask: Callable[[Floats], object], queries: Floats, clients: int, seconds: float
) -> tuple[float, float]:
    """Return queries a second of threads that call `ask` with one query (1, d), and the median milliseconds."""
    numbers, times, errors = count(), [], []
    end = time.perf_counter() + seconds

    def run() -> None:
        try:
            while (start := time.perf_counter()) < end:
                place = next(numbers) % len(queries)
                ask(queries[place : place + 1])
                times.append(time.perf_counter() - start)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return len(times) / seconds, float(np.median(times)) * 1000


def measure(name: str, vectors: Floats, queries: Floats, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Fill one engine, and measure each width of a search."""
    rare = (
        np.sort(np.random.default_rng(3).choice(len(vectors), int(SHARE * len(vectors)), replace=False)) + 1
    )
    everything = np.arange(1, len(vectors) + 1)
    exact = exact_nearest(vectors, queries, options.k, everything)
    exact_rare = exact_nearest(vectors, queries, min(options.k, len(rare)), rare)
    engine = ENGINES[name](vectors.shape[1])
    try:
        engine.configure(options.links, options.build_width)
        start = time.perf_counter()
        engine.load(vectors, rare)
        loaded = time.perf_counter()
        engine.finish()
        built = {"load_s": loaded - start, "index_s": time.perf_counter() - loaded}
        rows = []
        for width in options.widths:
            engine.widen(width)
            row: dict[str, Any] = {"engine": name, "width": width, **built}
            row["recall"] = recall(engine, queries, exact, EVERYTHING)
            row["recall_filtered"] = recall(engine, queries, exact_rare, RARE)
            for scope, suffix in ((EVERYTHING, ""), (RARE, "_filtered")):
                ask = partial(_ask, engine, options.k, scope)
                rate_of_clients(ask, queries, 1, 0.5)
                for clients in options.clients:
                    measured = rate_of_clients(ask, queries, clients, options.seconds)
                    row[f"qps_{clients}{suffix}"], row[f"ms_{clients}{suffix}"] = measured
            row |= {"memory_mb": engine.memory() / 1e6, "disk_mb": engine.disk() / 1e6}
            rows.append(row)
            print(as_line(row, options.clients), flush=True)
        return rows
    finally:
        engine.close()


def _ask(engine: Engine, k: int, scope: IndexScope, query: Floats) -> None:
    engine.index.nearest(query, k, scope)


def as_line(row: dict[str, Any], clients: list[int]) -> str:
    """Return a line of the table."""
    rates = [
        " / ".join(f"{row[f'qps_{number}{suffix}']:.0f}" for number in clients)
        for suffix in ("", "_filtered")
    ]
    return (
        f"{row['engine']:<9} {row['width']:5}  load {row['load_s']:.0f} s  index {row['index_s']:.0f} s  "
        f"memory {row['memory_mb']:.0f} MB  disk {row['disk_mb']:.0f} MB  recall {row['recall']:.3f}  "
        f"queries/s {rates[0]}  filtered: recall {row['recall_filtered']:.3f}  queries/s {rates[1]}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--collection", type=Path, required=True, help="collection whose vectors the mixture is fitted to"
    )
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=5, help="that each number of clients asks")
    parser.add_argument(
        "--widths",
        type=int,
        nargs="+",
        default=[100, 200, 400],
        help="ef of graphs, probes of the inverted file",
    )
    parser.add_argument("--links", type=int, help="M of graphs; default: that of each engine")
    parser.add_argument("--build-width", type=int, help="efConstruction of graphs; the same")
    options = parser.parse_args()
    real = read_vectors(options.collection)
    mixture, random = fit_mixture(real), np.random.default_rng(1)
    likeness = {
        "real": describe_neighbours(real),
        "drawn": describe_neighbours(mixture.draw(len(real), random)),
    }
    for name, described in likeness.items():
        print(
            f"{name:<6} distance to the 1st neighbour {described['first']}, to the 100th {described['hundredth']} "
            f"(10, 50, 90 %), dimension {described['dimension']}",
            flush=True,
        )
    vectors, queries = mixture.draw(options.images, random), mixture.draw(options.queries, random)
    results = [row for name in options.engines for row in measure(name, vectors, queries, options)]
    print(json.dumps({"bench": "scale", "images": options.images, "likeness": likeness, "results": results}))


if __name__ == "__main__":
    main()
