"""Measure what re-ranking the nearest images and a sample loses against all: bench/results/candidate_quality.md.

Queries are labelled images of a collection, drawn evenly from the classes; images of their patient are left out. Each
is searched with by every method, in all images and in the candidates of an index. Lists of both are as long as the
candidates, and 1,000 at most. Methods that read the nearest images alone have the same figures at all sizes from
1,000. `--index flat` is the search of a snapshot, as in large collections.

    OMP_NUM_THREADS=1 python bench/candidate_quality.py --collection DIR [--queries 200] [--sizes 500 2000 10000]
        [--index flat] [--without-graph] [--out FILE.md]
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from comparison import score_matrix
from intervals import mean_interval
from numpy.typing import NDArray

from cbir import rerank
from cbir.evaluation.qrels import EvalQuery, Qrels, RunMatrix, build_qrels, leave_one_out, sample_queries
from cbir.evaluation.relevance import Candidates, parse_relevance, select_candidates
from cbir.search import Request, Searcher
from cbir.search.fitted_values import Vectors
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.index.current_index import CurrentGap
from cbir.store.index.indexed_vectors import IndexedVectors
from cbir.store.index.open_index import open_index

DEEP = 100  # first answers that are compared
LIST = 1000  # answers that count, the most that a search returns by default


class Answers(NamedTuple):
    """Answers to all queries by one method: positions (q, LIST) of candidates, -1 after the last; milliseconds.

    The milliseconds are of processor time, which other work on the machine does not lengthen much.
    """

    positions: NDArray[np.int32]
    milliseconds: NDArray[np.float64]

    def cut(self, count: int) -> "Answers":
        """Return the first `count` answers to each query."""
        positions = self.positions.copy()
        positions[:, count:] = -1
        return Answers(positions, self.milliseconds)


def answer(
    searcher: Searcher, among: Candidates, queries: Sequence[EvalQuery], method: str, k: int = LIST
) -> Answers:
    """Search with every query for k answers."""
    positions = np.full((len(queries), k), -1, np.int32)
    milliseconds = np.empty(len(queries))
    for row, query in enumerate(queries):
        raw = searcher.collection.vector(query.image_id)
        request = Request(k=k, rerank=method, exclude_patient=query.patient)
        started = time.process_time()
        ranked = searcher.rank(raw, query.content, request)
        milliseconds[row] = (time.process_time() - started) * 1000
        positions[row, : len(ranked)] = among.positions(ranked.numbers)
    return Answers(positions, milliseconds)


def reads_nearest_alone(method: str) -> bool:
    """Return whether a method reads a fixed number of nearest images, whatever the number of candidates."""
    return method != "auto" and rerank.get(method).depth is not None


def overlap(left: Answers, right: Answers) -> float:
    """Return the mean share of the first DEEP answers that two methods have in common."""
    shares = [
        len(np.intersect1d(one[:DEEP], other[:DEEP])) / DEEP
        for one, other in zip(left.positions, right.positions, strict=True)
    ]
    return float(np.mean(shares))


def compare(whole: Answers, part: Answers, qrels: Qrels) -> dict[str, float]:
    """Return the scores of answers from candidates, and what they lose."""
    exact, found = (score_matrix(RunMatrix(each.positions), qrels) for each in (whole, part))
    lost, lowest, highest = mean_interval(exact[0] - found[0])
    return {
        "map_whole": float(exact[0].mean()), "map": float(found[0].mean()), "map_lost": lost,
        "map_lost_from": lowest, "map_lost_to": highest,
        "p_at_1_whole": float(exact[1].mean()), "p_at_1": float(found[1].mean()), "overlap": overlap(whole, part),
        "ms_whole": float(np.median(whole.milliseconds)), "ms": float(np.median(part.milliseconds)),
    }  # fmt: skip


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure all methods at all sizes."""
    collection, relevance = Collection(options.collection), parse_relevance(options.relevance)
    among = select_candidates(collection)
    drawn = sample_queries(
        [record.labels for record in among.records], relevance, options.queries, options.seed
    )
    qrels = build_qrels(among, leave_one_out(among, drawn), relevance)
    whole_searcher = Searcher(collection, Settings(device="cpu", indexed_candidates=max(1, len(collection))))
    vectors: Vectors | None = None
    index = open_index(collection, Settings(index=options.index))
    if index:
        index.follower.follow()
        started = time.process_time()
        index.neighbours.update()
        if graph := index.vectors.graph():
            print(
                f"graph of {len(graph)} images, {time.process_time() - started:.1f} s of a core if built now"
            )
        vectors = index.vectors
        if options.without_graph:
            vectors = IndexedVectors(index.feed, CurrentGap(index.feed, index.current))
    rows = []
    for method in options.methods:
        whole = answer(whole_searcher, among, qrels.queries, method)
        part = None
        for size in options.sizes:
            settings = Settings(device="cpu", indexed_candidates=size, indexed_sample=options.sample)
            if part is None or not reads_nearest_alone(method) or len(part.positions[0]) < min(size, LIST):
                searcher = Searcher(collection, settings, vectors)
                searcher.vectors.whole_up_to = 0  # however few images there are
                searcher.rank(
                    collection.vector(among.records[0].image_id), "", Request()
                )  # fits what all searches share
                part = answer(searcher, among, qrels.queries, method, min(size, LIST))
            row = {"method": method, "candidates": size} | compare(whole.cut(size), part, qrels)
            rows.append(row)
            if options.out:
                options.out.write_text(
                    document(rows, len(among), len(qrels.queries), options), encoding="utf-8"
                )
            print(
                f"{method:15} {size:6}  mAP {100 * row['map_whole']:5.2f} lost {100 * row['map_lost']:+5.2f} "
                f"({interval(row)})  P@1 {100 * row['p_at_1_whole']:5.2f} "
                f"{100 * (row['p_at_1'] - row['p_at_1_whole']):+5.2f}  overlap {row['overlap']:.3f}  "
                f"ms {row['ms_whole']:6.1f} {row['ms']:6.1f}",
                flush=True,
            )
    return rows


COLUMNS = (
    "method",
    "candidates",
    "mAP of all images",
    "mAP lost",
    "P@1 of all images",
    "P@1 lost",
    "first 100 in common",
    "ms of a core",
)


def interval(row: dict[str, Any]) -> str:
    """Return the interval of the mAP lost, in points."""
    return f"{100 * row['map_lost_from']:+.2f} to {100 * row['map_lost_to']:+.2f}"


def document(rows: Sequence[dict[str, Any]], images: int, queries: int, options: argparse.Namespace) -> str:
    """Return the figures as a Markdown page."""
    lines = [
        "# Candidates of an index against all images",
        "",
        f"{images} images, {queries} queries, a sample of {options.sample} images for the others, "
        f"index {options.index}. In points, with 95 % intervals of the mean. Lists are as long as the "
        f"candidates, and {LIST} at most. The last column is the median of searches by candidates.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{' --- |' * len(COLUMNS)}",
    ]
    for row in rows:
        values = (
            row["method"], row["candidates"], f"{100 * row['map_whole']:.2f}",
            f"{100 * row['map_lost']:+.2f} ({interval(row)})", f"{100 * row['p_at_1_whole']:.1f}",
            f"{100 * (row['p_at_1_whole'] - row['p_at_1']):+.1f}", f"{row['overlap']:.3f}",
            f"{row['ms']:.0f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(str, values))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collection", type=Path, required=True, help="collection with labels")
    parser.add_argument("--relevance", default="label", help="as for `cbir evaluate run`")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[500, 2000, 10_000], help="numbers of candidates"
    )
    parser.add_argument("--sample", type=int, default=5000, help="images that stand for the others")
    parser.add_argument(
        "--index", choices=["flat", "hnsw", "ivf"], default="flat", help="index that finds candidates"
    )
    parser.add_argument(
        "--without-graph", action="store_true", help="as while the graph of neighbours is not built"
    )
    parser.add_argument("--methods", nargs="+", default=["auto", *rerank.names()])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="Markdown file to write the figures to")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    rows = measure(options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
