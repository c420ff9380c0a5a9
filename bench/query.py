"""Time of a query, from its vector to ranked rows, for every re-ranker and against a plain implementation.

The collection is synthetic: clustered vectors of a fixed seed. The plain one follows Huang et al. 2012 with one
scikit-learn SVM at a time and its decision function over all images; the other re-rankers have none.
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
from cbir.gallery.ranking import RankingList, rank, top_k
from cbir.rerank import negatives
from cbir.rerank.auto import MUTUAL
from cbir.rerank.eprf import Eprf
from cbir.rerank.kernel_width import kernel_gamma
from cbir.rerank.reranker import Reranker
from cbir.rerank.top_hits import rerank_top
from cbir.store.profile import PROJECTED_EPRF
from cbir.threads import cores

CLUSTERS = 200
TARGETS_MS = {10_000: 5, 100_000: 20, 1_000_000: 150}  # eprf, P = 6, T1 = T2 = 10, two cores
TARGETS_OF_OTHERS_MS = {10_000: 20, 1_000_000: 400}
OBVIOUS = ("none", "pearson", "eprf", "nsu-eprf", "svm-eprf")


def collection(n: int, d: int, projected: bool = False) -> Gallery:
    """Create `n` clustered vectors of `d` dimensions and unit spread within a cluster, without a second copy.

    projected: of length 1 and compared as they are, like those of an encoder.
    """
    random = np.random.default_rng(0)
    centres = random.standard_normal((CLUSTERS, d), dtype=np.float32)
    vectors = np.empty((n, d), np.float32)
    for start in range(0, n, 10_000):
        piece = vectors[start : start + 10_000]
        random.standard_normal(out=piece, dtype=np.float32)
        piece += centres[random.integers(0, CLUSTERS, len(piece))]
        if projected:
            piece /= np.linalg.norm(piece, axis=1, keepdims=True)
    return Gallery((vectors,), np.arange(n, dtype=np.int64), projected=projected)


def linked(gallery: Gallery) -> Gallery:
    """Return the gallery with its k-NN graph, as a snapshot has it."""
    (vectors,) = gallery.blocks
    neighbourhood = Neighbourhood(knn.find_neighbours(vectors, gallery.space))
    neighbourhood.covering(gallery)
    return replace(gallery, neighbourhood=neighbourhood)


def memory_mb(field: str) -> float:
    """Return VmRSS or VmHWM (the peak) of this process, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1000


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the milliseconds of `work`, and its result."""
    started = time.perf_counter()
    result = work()
    return (time.perf_counter() - started) * 1000, result


def measure(gallery: Gallery, reranker: Reranker, queries: list[int], k: int) -> dict[str, float]:
    """Return median and 95th percentile over queries with images of the gallery, which are left out of their lists.

    Parameters
    ----------
    gallery : Gallery
        Vectors.
    reranker : Reranker
        Method with its parameters.
    queries : list of int
        Rows to search with.
    k : int
        Number of hits.
    """
    stages: dict[str, list[float]] = {name: [] for name in ("total", "rank", "rerank", "all", "cpu")}
    for row in [queries[0], *queries]:  # the first one warms up
        query = gallery.vectors(np.array([row]))[0]
        others = np.delete(np.arange(len(gallery)), row)
        cpu = time.process_time()
        ranking_ms, ranking = timed(lambda: rank(query, gallery, others))  # noqa: B023
        rerank_ms, hits = timed(lambda: rerank_top(reranker, query, ranking, gallery, k).rows)  # noqa: B023
        cpu_ms = (time.process_time() - cpu) * 1000
        all_ms, _ = timed(lambda: top_k(reranker(query, ranking, gallery).scores, len(gallery)))  # noqa: B023
        times = (ranking_ms + rerank_ms, ranking_ms, rerank_ms, all_ms, cpu_ms)
        for stage, ms in zip(stages, times, strict=True):
            stages[stage].append(ms)
        assert len(hits) == min(k, len(others))
    medians = {f"{stage}_ms": float(np.median(ms[1:])) for stage, ms in stages.items()}
    return medians | {"p95_ms": float(np.percentile(stages["total"][1:], 95))}


def measure_filters(
    gallery: Gallery, reranker: Reranker, queries: list[int], shares: list[float]
) -> list[Any]:
    """Compare queries behind a random filter with the same queries without one, in turns.

    Parameters
    ----------
    gallery : Gallery
        Vectors.
    reranker : Reranker
        Method with its parameters.
    queries : list of int
        Rows to search with.
    shares : list of float
        Shares of the images that pass a filter.
    """
    everything, method = np.arange(len(gallery)), reranker.name
    passing = [np.random.default_rng(2).random(len(gallery)) < share for share in shares]
    times: list[list[float]] = [[] for _ in range(len(shares) + 1)]
    for row in [queries[0], *queries]:
        query = gallery.vectors(np.array([row]))[0]
        others = np.delete(everything, row)
        for number, mask in enumerate([None, *passing]):
            rows = others if mask is None else others[mask[others]]

            def search(rows: Any = rows, passable: Any = None if mask is None else others) -> Any:
                ranking = replace(rank(query, gallery, rows), passable=passable)  # noqa: B023
                return rerank_top(reranker, query, ranking, gallery, 20)  # noqa: B023

            started = time.process_time()
            search()
            times[number].append((time.process_time() - started) * 1000)
    whole = float(np.median(times[0][1:]))
    results = []
    for share, of_share in zip(shares, times[1:], strict=True):
        ms = float(np.median(of_share[1:]))
        results.append(
            {
                "images": len(gallery), "method": method, "share": share, "cpu_ms": ms, "whole_cpu_ms": whole,
                "ratio": ms / whole, "reached": ms <= 2 * whole,
            }
        )  # fmt: skip
        print(f"{len(gallery):9} {method:<12} filter keeps {share:5.0%}: {ms:8.2f} ms of a core, "
              f"{whole:8.2f} without, ratio {ms / whole:5.2f}")  # fmt: skip
    return results


def obvious(
    query: NDArray[np.float32], gallery: Gallery, row: int, reranker: Reranker,
    similarities: NDArray[np.float32],
) -> NDArray[np.floating]:  # fmt: skip
    """Score all images but one by the paper, in the plainest way.

    Parameters
    ----------
    query : (d,) float32
        Query vector.
    gallery : Gallery
        Vectors.
    row : int
        Row of the query, which is left out.
    reranker : Reranker
        Method with its parameters; `sure` has no effect.
    similarities : (n - 1,) float32
        Similarities of the fast list. They replace equal ones here, since other last bits would change the order of
        near ties and with it the negatives.
    """
    p, method = reranker.parameters, reranker.name
    vectors = np.delete(gallery.blocks[0], row, axis=0)
    distances = np.linalg.norm(vectors - query, axis=1)
    scores = 1 - (distances - distances.min()) / np.ptp(distances)
    if method == "none":
        return np.asarray(scores)
    assert np.abs(scores - similarities).max() < 1e-5
    scores = similarities.copy()
    order = np.argsort(-scores, kind="stable")
    nearest = order[: p["N"]]
    references = vectors[nearest]

    def rho(image: int) -> float:
        distances_of_image = np.linalg.norm(references - vectors[image], axis=1)
        return float(np.corrcoef(distances[nearest], distances_of_image)[0, 1])

    if method != "nsu-eprf":
        for image in order[: p["K"]]:
            scores[image] += rho(image)
        order = np.argsort(-scores, kind="stable")
    if method == "pearson":
        return scores
    positives = order[: p["P"]]
    negative_sets = negatives.draw_negatives(
        query, scores.astype(np.float32), P=p["P"], sets=p["T1"] + p["T2"], lowest=p["lowest"], seed=p["seed"]
    )

    others = np.delete(np.arange(len(gallery)), row)
    gamma = kernel_gamma(p["gamma"], query, gallery, others, p["sharpness"])

    def train(negative_set: NDArray[np.int64], membership: NDArray[np.float64]) -> SVC:
        examples = vectors[np.concatenate([positives, negative_set])]
        weights = np.concatenate([membership, np.ones(len(negative_set))])
        svm = SVC(C=p["C"], gamma=gamma, tol=1e-6)
        return svm.fit(
            examples, np.repeat([1, -1], [len(positives), len(negative_set)]), sample_weight=weights
        )

    membership = np.ones(p["P"])
    if method != "svm-eprf":
        decisions = [
            train(d, membership).decision_function(vectors[positives]) for d in negative_sets[: p["T1"]]
        ]
        probability = np.mean([1 / (1 + np.exp(-f)) for f in decisions], axis=0)
        relevance = p["alpha"] * probability + (1 - p["alpha"]) * np.array([rho(i) for i in positives])
        membership = np.clip(relevance, 0.01, 1)
    sums = sum(train(d, membership).decision_function(vectors) for d in negative_sets[p["T1"] :])
    return np.asarray(sums + p["T2"] * p["closeness"] * scores)


def compare(gallery: Gallery, reranker: Reranker, row: int, k: int) -> dict[str, Any]:
    """Time the plain implementation of `reranker` with the query at `row` of `gallery`, and compare the k best."""
    query = gallery.vectors(np.array([row]))[0]
    others = np.delete(np.arange(len(gallery)), row)
    ranking: RankingList = rank(query, gallery, others)
    if isinstance(reranker, Eprf):
        reranker = replace(reranker, sure=0.0)
    scores = reranker(query, ranking, gallery).scores
    ms, expected = timed(lambda: obvious(query, gallery, row, reranker, ranking.similarities))
    head = top_k(scores, k)
    same_head = ranking.rows[head].tolist() == rerank_top(reranker, query, ranking, gallery, k).rows.tolist()
    swapped = expected[head][1:] - expected[head][:-1]  # above 0 where the obvious order differs
    difference = float(np.abs(scores - expected).max())
    # Two answers agree when only scores this close change places.
    return {
        "obvious_ms": ms,
        "largest_difference": difference,
        "same_ranking": bool(same_head and swapped.max(initial=0.0) < 1e-4 and difference < 1e-4),
        "same_top_100": len(np.intersect1d(head[:100], top_k(expected, 100))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--dimensions", type=int, default=168)
    parser.add_argument("--projected", action="store_true", help="vectors like those of an encoder")
    parser.add_argument(
        "--stored", action="store_true", help="with the settings that new collections of an encoder store"
    )
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--methods", nargs="+", choices=("auto", *rerank.names()), default=rerank.names())
    parser.add_argument("--k", type=int, default=1000, help="number of hits")
    parser.add_argument(
        "--obvious", type=int, default=100_000, help="largest size at which the plain implementation is timed"
    )
    parser.add_argument(
        "--filters", type=float, nargs="*", default=[], help="shares of the images that random filters keep"
    )
    options = parser.parse_args()
    blas = [pool["architecture"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    print(f"{cores()} cores, numpy {np.__version__}, BLAS kernels {blas[0]}, {options.dimensions} dimensions")
    print(f"{'images':>9} {'method':<12} {'median':>8} {'p95':>8} {'rank':>7} {'rerank':>8} "
          f"{'all':>10} {'obvious':>9} {'ratio':>6} same  extra MB memory   cpu ms")  # fmt: skip
    stored = PROJECTED_EPRF if options.stored else {}
    without_labels = {"auto": MUTUAL}
    rerankers = {
        method: rerank.get_tuned(method, stored, without_labels.get(method, {})) for method in options.methods
    }
    results = []
    for n in options.sizes:
        gallery = collection(n, options.dimensions, options.projected)
        queries = np.random.default_rng(1).integers(0, n, options.queries).tolist()
        if {"auto", "diffusion"} & set(options.methods):  # its graph belongs to a snapshot, not to a query
            linking_ms, gallery = timed(lambda: linked(gallery))  # noqa: B023
            print(f"{n:9} images linked with their neighbours in {linking_ms / 1000:.1f} s")
        assert math.isfinite(float(gallery.squared_norms.sum()))  # computed once a snapshot, not a query
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
        before = memory_mb("VmRSS")
        of_size: list[dict[str, Any]] = []
        for method in options.methods:
            row = {"images": n, "method": method} | measure(gallery, rerankers[method], queries, options.k)
            row["extra_mb"] = memory_mb("VmHWM") - before
            row["memory"] = 1 + row["extra_mb"] * 1e6 / gallery.blocks[0].nbytes
            targets = TARGETS_MS if method == "eprf" else TARGETS_OF_OTHERS_MS
            if n in targets:
                row["target_ms"] = targets[n]
                row["reached"] = row["total_ms"] <= targets[n]
            of_size.append(row)
        for row in of_size:  # after the others, because the plain implementation leaves memory allocated
            if n <= options.obvious and row["method"] in OBVIOUS:
                row |= compare(gallery, rerankers[row["method"]], queries[0], options.k)
                row["ratio"] = row["obvious_ms"] / row["total_ms"]
            print_row(row)
        results += of_size
        for method in options.methods if options.filters else []:
            results += measure_filters(gallery, rerankers[method], queries, options.filters)
    print(
        json.dumps({"bench": "query", "cores": cores(), "dimensions": options.dimensions, "results": results})
    )


def print_row(row: dict[str, Any]) -> None:
    peer = f"{row['obvious_ms']:9.0f} {row['ratio']:6.1f} {'yes' if row['same_ranking'] else 'NO':<5}" \
        if "ratio" in row else f"{'-':>9} {'-':>6} {'-':<5}"  # fmt: skip
    print(f"{row['images']:9} {row['method']:<12} {row['total_ms']:8.2f} {row['p95_ms']:8.2f} "
          f"{row['rank_ms']:7.2f} {row['rerank_ms']:8.2f} "
          f"{row['all_ms']:10.2f} {peer} {row['extra_mb']:8.1f} {row['memory']:6.2f} "
          f"{row['cpu_ms']:8.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
