"""How long a query takes, from its vector to ranked rows, for every re-ranker and against the obvious way.

The collection is synthetic: clustered vectors of a fixed seed. The obvious way follows Huang et al. 2012 with one
scikit-learn machine at a time and its decision function over all images; the other re-rankers have none.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC
from threadpoolctl import threadpool_info

from cbir import rerank
from cbir.gallery import knn
from cbir.gallery.gallery import Gallery
from cbir.gallery.live_graph import Neighbourhood
from cbir.gallery.ranking import RankingList, best, rank
from cbir.rerank import negatives
from cbir.threads import cores

CLUSTERS = 200
TARGETS_MS = {10_000: 10, 100_000: 40, 1_000_000: 300}  # eprf, P = 6, T1 = T2 = 10, two cores
TARGETS_OF_OTHERS_MS = {10_000: 20, 1_000_000: 400}
OBVIOUS = ("none", "pearson", "eprf", "nsu-eprf", "svm-eprf")


def collection(n: int, d: int) -> Gallery:
    """n clustered vectors of unit spread within a cluster, made without a second copy."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((CLUSTERS, d), dtype=np.float32)
    vectors = np.empty((n, d), np.float32)
    for start in range(0, n, 10_000):
        piece = vectors[start : start + 10_000]
        random.standard_normal(out=piece, dtype=np.float32)
        piece += centres[random.integers(0, CLUSTERS, len(piece))]
    return Gallery((vectors,), np.arange(n, dtype=np.int64))


def linked(gallery: Gallery) -> Gallery:
    """The gallery with its neighbourhood, as a snapshot has it."""
    (vectors,) = gallery.blocks
    neighbourhood = Neighbourhood(knn.find(vectors, gallery.space))
    neighbourhood.covering(gallery)
    return replace(gallery, neighbourhood=neighbourhood)


def memory_mb(field: str) -> float:
    """VmRSS or VmHWM (the peak) of this process, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1000


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds, and what `work` returns."""
    started = time.perf_counter()
    result = work()
    return (time.perf_counter() - started) * 1000, result


def measure(gallery: Gallery, method: str, queries: list[int], k: int) -> dict[str, float]:
    """Median and 95th percentile over queries by images of the collection, which are left out of their lists."""
    reranker = rerank.get(method)
    stages: dict[str, list[float]] = {name: [] for name in ("total", "rank", "rerank", "order", "full_order")}
    for row in [queries[0], *queries]:  # the first one warms up
        query = gallery.vectors(np.array([row]))[0]
        others = np.delete(np.arange(len(gallery)), row)
        ranking_ms, ranking = timed(lambda: rank(query, gallery, others))  # noqa: B023
        rerank_ms, reranked = timed(lambda: reranker(query, ranking, gallery))  # noqa: B023
        order_ms, places = timed(lambda: gallery.ids[ranking.rows[best(reranked.scores, k)]])  # noqa: B023
        full_ms, _ = timed(lambda: best(reranked.scores, len(gallery)))  # noqa: B023
        found = (ranking_ms + rerank_ms + order_ms, ranking_ms, rerank_ms, order_ms, full_ms)
        for stage, ms in zip(stages, found, strict=True):
            stages[stage].append(ms)
        assert len(places) == min(k, len(others))
    medians = {f"{stage}_ms": float(np.median(ms[1:])) for stage, ms in stages.items()}
    return medians | {"p95_ms": float(np.percentile(stages["total"][1:], 95))}


def obvious(
    query: NDArray[np.float32], gallery: Gallery, row: int, method: str, similarities: NDArray[np.float32]
) -> NDArray[np.floating]:
    """Scores of all images but `row`, by the paper and the plainest means.

    similarities: the fast list's, which replace these once they are found, or their last bits would change
    places among near ties and with them the negatives.
    """
    p = rerank.get("eprf").parameters
    vectors = np.delete(gallery.blocks[0], row, axis=0)
    distances = np.linalg.norm(vectors - query, axis=1)
    scores = 1 - (distances - distances.min()) / np.ptp(distances)
    if method == "none":
        return scores
    assert np.abs(scores - similarities).max() < 1e-5
    scores = similarities.copy()
    order = np.argsort(-scores, kind="stable")
    nearest = order[: p["N"]]
    references = vectors[nearest]

    def rho(place: int) -> float:
        own = np.linalg.norm(references - vectors[place], axis=1)
        return float(np.corrcoef(distances[nearest], own)[0, 1])

    if method != "nsu-eprf":
        for place in order[: p["K"]]:
            scores[place] += rho(place)
        order = np.argsort(-scores, kind="stable")
    if method == "pearson":
        return scores
    positives = order[: p["P"]]
    drawn = negatives.draw(
        query, scores.astype(np.float32), P=p["P"], sets=p["T1"] + p["T2"], lowest=p["lowest"], seed=p["seed"]
    )

    def machine(places: NDArray[np.int64], membership: NDArray[np.float64]) -> SVC:
        examples = vectors[np.concatenate([positives, places])]
        weights = np.concatenate([membership, np.ones(len(places))])
        svm = SVC(C=p["C"], gamma=p["gamma"] / vectors.shape[1], tol=1e-6)
        return svm.fit(examples, np.repeat([1, -1], [len(positives), len(places)]), sample_weight=weights)

    membership = np.ones(p["P"])
    if method != "svm-eprf":
        decisions = [machine(d, membership).decision_function(vectors[positives]) for d in drawn[: p["T1"]]]
        probability = np.mean([1 / (1 + np.exp(-f)) for f in decisions], axis=0)
        relevance = p["alpha"] * probability + (1 - p["alpha"]) * np.array([rho(i) for i in positives])
        membership = np.clip(relevance, 0.01, 1)
    return sum(machine(d, membership).decision_function(vectors) for d in drawn[p["T1"] :])


def compare(gallery: Gallery, method: str, row: int, k: int) -> dict[str, Any]:
    """The obvious way's time, and how far the two answers are apart."""
    query = gallery.vectors(np.array([row]))[0]
    others = np.delete(np.arange(len(gallery)), row)
    ranking: RankingList = rank(query, gallery, others)
    scores = rerank.get(method)(query, ranking, gallery).scores
    ms, expected = timed(lambda: obvious(query, gallery, row, method, ranking.similarities))
    head = best(scores, k)
    swapped = expected[head][1:] - expected[head][:-1]  # above 0 where the obvious order differs
    difference = float(np.abs(scores - expected).max())
    # Two answers agree when only scores this close change places.
    return {
        "obvious_ms": ms,
        "largest_difference": difference,
        "same_ranking": bool(swapped.max(initial=0.0) < 1e-4 and difference < 1e-4),
        "same_top_100": len(np.intersect1d(head[:100], best(expected, 100))),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    options.add_argument("--dimensions", type=int, default=168)
    options.add_argument("--queries", type=int, default=20)
    options.add_argument("--methods", nargs="+", choices=rerank.names(), default=rerank.names())
    options.add_argument("--k", type=int, default=1000, help="places asked for")
    options.add_argument(
        "--obvious", type=int, default=100_000, help="largest size the obvious way is timed at"
    )
    chosen = options.parse_args()
    blas = [pool["architecture"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    print(f"{cores()} cores, numpy {np.__version__}, BLAS kernels {blas[0]}, {chosen.dimensions} dimensions")
    print(f"{'images':>9} {'method':<12} {'median':>8} {'p95':>8} {'rank':>7} {'rerank':>8} {'order':>6} "
          f"{'full order':>10} {'obvious':>9} {'ratio':>6} same  extra MB memory")  # fmt: skip
    results = []
    for n in chosen.sizes:
        gallery = collection(n, chosen.dimensions)
        queries = np.random.default_rng(1).integers(0, n, chosen.queries).tolist()
        if "diffusion" in chosen.methods:  # its graph is made with a snapshot, not with a query
            linking_ms, gallery = timed(lambda: linked(gallery))  # noqa: B023
            print(f"{n:9} images joined with their neighbours in {linking_ms / 1000:.1f} s")
        assert math.isfinite(float(gallery.squared_norms.sum()))  # computed once a snapshot, not a query
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
        before = memory_mb("VmRSS")
        of_size: list[dict[str, Any]] = []
        for method in chosen.methods:
            found = {"images": n, "method": method} | measure(gallery, method, queries, chosen.k)
            found["extra_mb"] = memory_mb("VmHWM") - before
            found["memory"] = 1 + found["extra_mb"] * 1e6 / gallery.blocks[0].nbytes
            targets = TARGETS_MS if method == "eprf" else TARGETS_OF_OTHERS_MS
            if n in targets:
                found["target_ms"] = targets[n]
                found["reached"] = found["total_ms"] <= targets[n]
            of_size.append(found)
        for found in of_size:  # after the others, because the obvious way leaves memory behind
            if n <= chosen.obvious and found["method"] in OBVIOUS:
                found |= compare(gallery, found["method"], queries[0], chosen.k)
                found["ratio"] = found["obvious_ms"] / found["total_ms"]
            print_row(found)
        results += of_size
    print(
        json.dumps({"bench": "query", "cores": cores(), "dimensions": chosen.dimensions, "results": results})
    )


def print_row(found: dict[str, Any]) -> None:
    peer = f"{found['obvious_ms']:9.0f} {found['ratio']:6.1f} {'yes' if found['same_ranking'] else 'NO':<5}" \
        if "ratio" in found else f"{'-':>9} {'-':>6} {'-':<5}"  # fmt: skip
    print(f"{found['images']:9} {found['method']:<12} {found['total_ms']:8.2f} {found['p95_ms']:8.2f} "
          f"{found['rank_ms']:7.2f} {found['rerank_ms']:8.2f} {found['order_ms']:6.2f} "
          f"{found['full_order_ms']:10.2f} {peer} {found['extra_mb']:8.1f} {found['memory']:6.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
