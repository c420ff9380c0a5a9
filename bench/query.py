"""Time of a search, from the vector of an image to ranked images: bench/results/query.md.

Searched are collections of drawn vectors, written and indexed as the product does it. Their vectors are those of a
mixture that is fitted to a real collection of an encoder; queries are vectors of the collection. A collection that is
there already is used again.

    python -m bench.query --fitted-to COLLECTION --folder FOLDER [--sizes 10000 100000 1000000] [--one-core]
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bench.scale import read_vectors
from bench.scale_collection import SHARES, fit_mixture, write_collection
from cbir.gallery.gallery import top_k
from cbir.gallery.vector_blocks import Floats
from cbir.search import Request, Searcher, Stopwatch
from cbir.search.view_vectors import EVERYTHING
from cbir.settings import Settings
from cbir.store import Collection
from cbir.system import threads

METHODS = ("none", "auto", "eprf")
HEADS = (20, 2000, 5000)  # nearest images whose recall is measured


def memory_mb() -> dict[str, float]:
    """Return the memory of this process in MB: its own, and files that it has mapped, which the system may drop."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return {
        name: int(lines[field].split()[0]) / 1000
        for name, field in (("own", "RssAnon"), ("mapped", "RssFile"))
    }


def open_searcher(folder: Path) -> tuple[Searcher, Floats]:
    """Open a collection and fit what its searches share; return its raw vectors (q, d) to search with, too."""
    collection = Collection(folder)
    ids = collection.view().gallery.ids
    numbers = ids[np.linspace(1, len(ids) - 2, 100).astype(int)].tolist()
    raw = np.stack([collection.vector(record.image_id) for record in collection.records(numbers).values()])
    searcher = Searcher(collection, Settings(device="cpu"))
    searcher.rank(raw[0], "", Request(), Stopwatch())
    return searcher, raw


def time_searches(
    searcher: Searcher, queries: Floats, method: str, where: Sequence[str] = ()
) -> dict[str, Any]:
    """Search with every query for 20 images; return medians of milliseconds, and what answered."""
    request = Request(k=20, rerank=method, where=list(where))
    clock, processor = [], []
    for query in [queries[0], *queries]:  # the first one warms up
        started, cpu = time.perf_counter(), time.process_time()
        answer = searcher.rank(query, "", request, Stopwatch())
        processor.append((time.process_time() - cpu) * 1000)
        clock.append((time.perf_counter() - started) * 1000)
    assert len(answer) == min(20, len(searcher.collection))
    return {
        "clock_ms": float(np.median(clock[1:])),
        "p95_ms": float(np.percentile(clock[1:], 95)),
        "processor_ms": float(np.median(processor[1:])),
        "scope": answer.scope,
        "index": answer.index,
    }


def measure_recall(searcher: Searcher, raw: Floats) -> dict[int, float]:
    """Return the shares of the HEADS nearest images that searches find, mean over the queries."""
    view, shares = searcher.collection.view(), {}
    queries = np.stack([view.statistics.normalise(query) for query in raw])
    exact = [view.gallery.ids[top_k(-view.gallery.distances(query), max(HEADS))] for query in queries]
    for count in HEADS:
        heads = searcher.vectors.current().nearest(queries, count, EVERYTHING)
        common = [
            len(np.intersect1d(head.numbers, nearest[:count]))
            for head, nearest in zip(heads, exact, strict=True)
        ]
        shares[count] = float(np.mean(common)) / min(count, len(view))
    return shares


def measure(folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure all methods in a collection, with filters and without, in turns; print as it goes."""
    searcher, raw = open_searcher(folder)
    images, rows = len(searcher.collection), []
    for method in options.methods:
        whole: dict[str, Any] = {}
        for name in ("", *options.filters):
            times = time_searches(searcher, raw[: options.queries], method, [f"{name}=yes"] if name else ())
            whole = whole or times
            ratio = times["processor_ms"] / whole["processor_ms"]
            rows.append({"images": images, "method": method, "filter": name, "ratio": ratio} | times)
            kept = f"1 in {SHARES[name]}" if name else "all"
            print(
                f"{images:9} {method:<15} {kept:<8} {times['processor_ms']:7.1f} ms of processors "
                f"({ratio:4.2f}) {times['clock_ms']:7.1f} by the clock, p95 {times['p95_ms']:7.1f}  "
                f"{times['index']}: {times['scope']}",
                flush=True,
            )
    memory = memory_mb()
    print(f"{images:9} memory: {memory['own']:.0f} MB of its own, {memory['mapped']:.0f} MB of mapped files")
    recall = measure_recall(searcher, raw[: options.queries])
    print(f"{images:9} recall: {', '.join(f'{share:.5f} of {count}' for count, share in recall.items())}")
    return [*rows, {"images": images, "memory": memory, "recall": recall}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--fitted-to", type=Path, help="collection of an encoder, to draw vectors like its own"
    )
    parser.add_argument("--folder", type=Path, required=True, help="folder of the drawn collections")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000], help="numbers of images")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--filters", nargs="*", choices=SHARES, default=[], help="labels to filter by, too")
    parser.add_argument("--queries", type=int, default=20, help="searches of each kind, 100 at most")
    parser.add_argument("--one-core", action="store_true", help="search on one core")
    options = parser.parse_args()
    if options.one_core:
        threads.keep_to_one_core()
    results = []
    for images in tqdm(options.sizes, unit="collection", leave=False):
        folder = options.folder / f"drawn-{images}"
        if not folder.exists():
            if options.fitted_to is None:
                parser.error(f"{folder} does not exist: give --fitted-to")
            write_collection(folder, fit_mixture(read_vectors(options.fitted_to)), images)
            with Collection(folder) as collection, collection.writer() as writer:
                writer.snapshot()
        results += measure(folder, options)
    print(json.dumps({"bench": "query", "cores": os.cpu_count(), "results": results}))


if __name__ == "__main__":
    main()
