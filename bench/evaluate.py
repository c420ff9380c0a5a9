"""Time an evaluation: from queries to a run file, and from run and qrels to metrics, compared with pytrec_eval.

The collection is synthetic: clustered vectors with a fixed seed, a label per cluster. A query is an image of the
collection, left out of its own answers; the search is that of the service, with image hash and SQL.
"""

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytrec_eval

from cbir import settings
from cbir.evaluation import named_metrics, relevance, runs
from cbir.evaluation.qrels import Qrels, build_qrels, leave_one_out, sample_queries
from cbir.evaluation.relevance import Candidates, select_candidates
from cbir.evaluation.runs import EvalRun, RunWriter, SearchProtocol
from cbir.evaluation.search_pool import open_search_pool
from cbir.store import Collection, Record
from cbir.store.base import profile as profiles
from cbir.system.threads import cores

CLUSTERS = 193
DIMENSIONS = 168
TARGET_S, TARGET_RATIO = 120, 2.0
NAMES = {"AP": "map", "P@10": "P_10", "nDCG@10": "ndcg_cut_10", "RR": "recip_rank", "Rprec": "Rprec"}


def make(folder: Path, count: int) -> Collection:
    """Create a collection of `count` images with labels as uneven as an archive's."""
    random = np.random.default_rng(0)
    share = 1.0 / np.arange(1, CLUSTERS + 1)
    cluster = random.choice(CLUSTERS, count, p=share / share.sum())
    centres = random.standard_normal((CLUSTERS, DIMENSIONS), dtype=np.float32)
    vectors = centres[cluster] + random.standard_normal((count, DIMENSIONS), dtype=np.float32)
    collection = Collection.create(folder, profiles.get("huang2012"))
    with collection.writer() as writer:
        writer.add([(record(number, int(cluster[number])), vectors[number]) for number in range(count)])
        writer.finish()
    return collection


def record(number: int, cluster: int) -> Record:
    content = hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest()
    return Record(content, f"/{number}.png", "1", "png", 512, 512, labels={"label": f"class {cluster}"})


def answer(
    collection: Collection, method: str, count: int, depth: int, jobs: int, folder: Path
) -> tuple[float, Candidates, Qrels, EvalRun]:
    """Run `count` queries, and measure the seconds from opened collection to finished run file."""
    images, by_label = select_candidates(collection), relevance.parse_relevance("label")
    labels = [record.labels for record in images.records]
    queries = leave_one_out(images, sample_queries(labels, by_label, count, 0))
    qrels = build_qrels(images, queries, by_label)
    in_force = settings.load()
    started = time.perf_counter()
    with open_search_pool(collection.folder, in_force, jobs) as pool:
        runner = RunWriter(collection, images, qrels.queries, SearchProtocol(depth), in_force, folder)
        run = runner.run(runs.parse_methods(method)[0], pool, lambda _: None)
    return time.perf_counter() - started, images, qrels, run


def best_of(repeats: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shortest time in seconds of some runs, and the last result."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - started)
    return min(seconds), result


def compare(
    qrels: Qrels, run: EvalRun, images: Candidates, folder: Path, names: Sequence[str], repeats: int
) -> dict[str, Any]:
    """Time our evaluation and that of pytrec_eval, each on data in memory."""
    with (folder / run.method.file).open() as file:
        their_run = pytrec_eval.parse_run(file)
    ids = [record.image_id for record in images.records]
    judged = zip(qrels.queries, qrels.positions, qrels.gains, strict=True)
    their_qrels = {
        query.name: {
            ids[position]: gain for position, gain in zip(positions.tolist(), gains.tolist(), strict=True)
        }
        for query, positions, gains in judged
    }
    metrics = named_metrics.parse_metrics(" ".join(names))
    ours_s, values = best_of(repeats, lambda: named_metrics.compute_metrics(metrics, run.matrix, qrels))

    def alone() -> dict[str, dict[str, float]]:
        evaluator = pytrec_eval.RelevanceEvaluator(their_qrels, {NAMES[name] for name in names})
        return evaluator.evaluate(their_run)

    theirs_s, theirs = best_of(repeats, alone)
    expected = [[theirs[query.name][NAMES[name]] for query in qrels.queries] for name in names]
    return {
        "ours_s": ours_s,
        "pytrec_eval_s": theirs_s,
        "ratio": ours_s / theirs_s,
        "same_values": bool(np.allclose(values, expected, atol=1e-12)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=12_677)
    parser.add_argument("--queries", type=int, default=1_733)
    parser.add_argument("--depth", type=int, default=1_000)
    parser.add_argument("--rerank", default="eprf")
    parser.add_argument("--jobs", type=int, default=cores())
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{cores()} cores, {options.images} images, {options.queries} queries, {options.depth} answers to each"
    )
    with tempfile.TemporaryDirectory() as name:
        collection = make(Path(name) / "collection", options.images)
        seconds, images, qrels, run = answer(
            collection, options.rerank, options.queries, options.depth, options.jobs, Path(name)
        )
        results = {
            "rerank": options.rerank, "run_s": seconds, "queries_a_second": len(qrels.queries) / seconds,
            "run_target_s": TARGET_S, "run_reached": seconds <= TARGET_S,
        } | compare(qrels, run, images, Path(name), list(NAMES), options.repeats)  # fmt: skip
    results["ratio_reached"] = results["ratio"] <= TARGET_RATIO
    print(f"{options.rerank}, {options.jobs} processes, to the run file   {seconds:8.1f} s, "
          f"{results['queries_a_second']:.0f} queries per second")  # fmt: skip
    print(f"{', '.join(NAMES)}   {results['ours_s']:8.2f} s, pytrec_eval alone {results['pytrec_eval_s']:.2f} s, "
          f"ratio {results['ratio']:.2f}, same values: {'yes' if results['same_values'] else 'NO'}")  # fmt: skip
    print(json.dumps({"bench": "evaluate", "cores": cores(), "images": options.images,
                      "queries": options.queries, "depth": options.depth, "results": results}))  # fmt: skip


if __name__ == "__main__":
    main()
