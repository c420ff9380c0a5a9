"""Measure relevance feedback: mean average precision after each round of a simulated person's judgements.

Queries are images of a labelled collection. In each round the person judges the first 10 unjudged answers by their
label, and all judgements so far are sent with the next search. Three figures per round, from round 0 without any:

map: of the full list, judged images where the learned score puts them.
shown: of the list as a person sees it, judged-relevant images first and judged-irrelevant ones last.
unjudged: of the unjudged images among themselves, which shows how well learning generalises.

    python bench/feedback.py --data FOLDER [--collection FOLDER] [--queries 100] [--draw classes|images] [--json FILE]
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rerank_quality import indexed  # beside this file

from cbir import settings
from cbir.evaluation.candidates import select_candidates
from cbir.evaluation.metrics import average_precision as metric
from cbir.evaluation.query_images import sample_queries
from cbir.evaluation.relevance import parse_relevance
from cbir.evaluation.report import charts
from cbir.evaluation.report.svg_figure import standalone_svg
from cbir.search import Judgement, Request, Searcher
from cbir.store import Collection
from cbir.threads import cores

MEASURES = ("map", "shown", "unjudged")


def average_precision(relevant: NDArray[np.bool_]) -> float:
    """Return the AP of a complete list of answers (m,); NaN if none is relevant."""
    return float(metric.average_precision(relevant[None])[0]) if relevant.any() else float("nan")


class Person:
    """One query, and its judgements so far. labels: by image number; label: the query's."""

    def __init__(self, searcher: Searcher, image_id: str, labels: dict[int, str], label: str) -> None:
        self.searcher = searcher
        self.record = searcher.collection.record(image_id)
        self.raw = searcher.collection.vector(image_id)[None, :]
        self.labels = labels
        self.label = label
        self.judgements: dict[int, Judgement] = {}
        self.ms = 0.0

    def look(self) -> dict[str, float]:
        """Search with all judgements so far; return the figures of the answer and keep its order."""
        request = Request(k=10**9, feedback=list(self.judgements.values()))
        started = time.perf_counter()
        ranked = self.searcher.learn(self.raw, [self.record.content_hash], request, judged_first=False)
        self.ms = (time.perf_counter() - started) * 1000
        self.order = ranked.numbers
        relevant = np.array([self.labels[number] == self.label for number in self.order.tolist()])
        judged = np.array([number in self.judgements for number in self.order.tolist()])
        hits = [relevant[judged & relevant], relevant[~judged], relevant[judged & ~relevant]]
        return dict(
            zip(
                MEASURES,
                (
                    average_precision(relevant),
                    average_precision(np.concatenate(hits)),
                    average_precision(relevant[~judged]),
                ),
                strict=True,
            )
        )

    def judge(self, count: int) -> None:
        """Judge the first `count` unjudged images."""
        new = [number for number in self.order.tolist() if number not in self.judgements][:count]
        for number, record in self.searcher.collection.records(new).items():
            relevance = 1.0 if record.labels.get("label") == self.label else -1.0
            self.judgements[number] = Judgement(image_id=record.image_id, relevance=relevance)


def simulate(
    collection: Collection, queries: int, rounds: int, count: int, seed: int, draw: str
) -> dict[str, Any]:
    """Return the figures of all rounds, means over the queries with 95 % bootstrap intervals.

    Parameters
    ----------
    collection : Collection
        Images with the label "label".
    queries, rounds : int
        Numbers of queries, and of rounds.
    count : int
        Images judged in a round.
    seed : int
        Seed of the sample of queries.
    draw : "classes" or "images"
        Whether queries are drawn evenly from classes, or from all images.
    """
    among = select_candidates(collection)
    labels = [record.labels.get("label", "") for record in among.records]
    numbers = collection.view().gallery.ids.tolist()
    by_id = {record.image_id: record.labels.get("label", "") for record in among.records}
    everything = collection.records(numbers)
    by_number = {number: by_id[record.image_id] for number, record in everything.items()}
    random = np.random.default_rng(seed)
    if draw == "classes":
        selected = sample_queries(
            [record.labels for record in among.records], parse_relevance("label"), queries, seed
        )
    else:
        selected = random.choice(len(labels), min(queries, len(labels)), replace=False)
    searcher = Searcher(collection, settings.load())
    figures = np.full((len(selected), rounds + 1, len(MEASURES)), np.nan)
    ms = np.zeros((len(selected), rounds + 1))
    for number, query in enumerate(np.asarray(selected).tolist()):
        person = Person(searcher, among.records[query].image_id, by_number, labels[query])
        for turn in range(rounds + 1):
            figures[number, turn] = list(person.look().values())
            ms[number, turn] = person.ms
            person.judge(count)
    samples = random.integers(0, len(selected), (1000, len(selected)))
    resampled = np.nanmean(figures[samples], axis=1)
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0)
    return {
        "queries": len(selected),
        "draw": draw,
        "seed": seed,
        "cores": cores(),
        "rounds": [
            {
                "round": turn,
                "ms": round(float(np.median(ms[:, turn])), 1),
                **{
                    name: {
                        "mean": round(float(np.nanmean(figures[:, turn, m])), 4),
                        "interval": [round(float(low[turn, m]), 4), round(float(high[turn, m]), 4)],
                    }
                    for m, name in enumerate(MEASURES)
                },
            }
            for turn in range(rounds + 1)
        ],
    }


def plot(result: dict[str, Any], path: Path) -> None:
    """Write an SVG of mAP by round."""
    rounds = [turn["round"] for turn in result["rounds"]]
    series = [(name, [turn[name]["mean"] for turn in result["rounds"]]) for name in MEASURES]
    limits = (0.0, float(max(rounds[-1], 1)))
    chart = charts.line_chart(series, rounds, "round of judgements", "mAP", x_range=limits)
    path.write_text(standalone_svg(chart), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of images with manifest.csv")
    parser.add_argument("--manifest", type=Path)
    parser.add_argument("--collection", type=Path, help="existing collection, or folder to create one in")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--judged", type=int, default=10, help="answers judged per round")
    parser.add_argument("--draw", choices=["classes", "images"], default="classes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=cores())
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="SVG file to write")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, indexed(options, Path(folder)) as collection:
        result = simulate(
            collection, options.queries, options.rounds, options.judged, options.seed, options.draw
        )
    print(f"{result['queries']} queries, drawn from {result['draw']}")
    print("round " + " ".join(f"{name:>22}" for name in MEASURES) + "     ms")
    for turn in result["rounds"]:
        cells = [
            "{:8.3f} [{:.3f}, {:.3f}]".format(turn[name]["mean"], *turn[name]["interval"])
            for name in MEASURES
        ]
        print(f"{turn['round']:>5} " + " ".join(cells) + f" {turn['ms']:6.1f}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        plot(result, options.plot)


if __name__ == "__main__":
    main()
