"""Measure relevance feedback: mean average precision after each round of a simulated person's judgements.

Queries are images of a labelled collection. In each round the person judges the first 10 unjudged answers by their
label, and all judgements so far are sent with the next search. Three figures per round, from round 0 without any:

map: of the full list, judged images where the learned score puts them.
shown: of the list as a person sees it, judged-relevant images first and judged-irrelevant ones last.
unjudged: of the unjudged images among themselves, which shows how well learning generalises.

With several methods or numbers of examples, all are compared on the same queries, and each query's further examples
are drawn from the images with its label.

    python bench/feedback.py --data FOLDER [--collection FOLDER] [--queries 100] [--draw classes|images] [--json FILE]
        [--methods feedback eprf eprf:P=3] [--examples 1 3 5] [--rounds 5]
"""

import argparse
import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rerank_quality import indexed  # beside this file

from cbir import settings
from cbir.evaluation import rank_metrics as metric
from cbir.evaluation.qrels import sample_queries
from cbir.evaluation.relevance import parse_relevance, select_candidates
from cbir.evaluation.report import charts
from cbir.evaluation.report.charts import standalone_svg
from cbir.search import Judgement, Request, Searcher
from cbir.search.command_options import parse_parameters
from cbir.store import Collection
from cbir.system.threads import cores

MEASURES = ("map", "shown", "unjudged")


def average_precision(relevant: NDArray[np.bool_]) -> float:
    """Return the AP of a complete list of answers (m,); NaN if none is relevant."""
    return float(metric.average_precision(relevant[None])[0]) if relevant.any() else float("nan")


@dataclass(frozen=True)
class Simulation:
    """Options of a simulation: `queries` queries, `rounds` of `judged` judgements each.

    draw: whether queries are drawn evenly from "classes", or from all "images". examples: images of a query.
    """

    queries: int
    rounds: int
    judged: int
    seed: int
    draw: str
    method: str = "feedback"
    parameters: dict[str, Any] = field(default_factory=dict)
    examples: int = 1


class Person:
    """One query of several images, and its judgements so far. labels: by image number; label: the query's."""

    def __init__(
        self, searcher: Searcher, image_ids: list[str], labels: dict[int, str], plan: Simulation
    ) -> None:
        self.searcher, self.plan = searcher, plan
        records = [searcher.collection.record(image_id) for image_id in image_ids]
        self.contents = [record.content_hash for record in records]
        self.raw = np.stack([searcher.collection.vector(image_id) for image_id in image_ids])
        self.labels = labels
        self.label = records[0].labels.get("label", "")
        self.judgements: dict[int, Judgement] = {}
        self.ms = 0.0

    def look(self) -> dict[str, float]:
        """Search with all judgements so far; return the figures of the answer and keep its order."""
        request = Request(
            k=10**9,
            rerank=self.plan.method,
            parameters=self.plan.parameters,
            feedback=list(self.judgements.values()),
        )
        started = time.perf_counter()
        ranked = self.searcher.learn(self.raw, self.contents, request, judged_first=False)
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


def simulate(collection: Collection, plan: Simulation) -> dict[str, Any]:
    """Return the figures of all rounds, means over the queries with 95 % bootstrap intervals.

    The images of `collection` have the label "label".
    """
    among = select_candidates(collection)
    labels = [record.labels.get("label", "") for record in among.records]
    numbers = collection.view().gallery.ids.tolist()
    by_id = {record.image_id: record.labels.get("label", "") for record in among.records}
    everything = collection.records(numbers)
    by_number = {number: by_id[record.image_id] for number, record in everything.items()}
    random = np.random.default_rng(plan.seed)
    if plan.draw == "classes":
        selected = sample_queries(
            [record.labels for record in among.records], parse_relevance("label"), plan.queries, plan.seed
        )
    else:
        selected = random.choice(len(labels), min(plan.queries, len(labels)), replace=False)
    searcher = Searcher(collection, settings.load())
    figures = np.full((len(selected), plan.rounds + 1, len(MEASURES)), np.nan)
    ms = np.zeros((len(selected), plan.rounds + 1))
    for number, query in enumerate(np.asarray(selected).tolist()):
        images = [among.records[image].image_id for image in _examples(labels, query, plan)]
        person = Person(searcher, images, by_number, plan)
        for turn in range(plan.rounds + 1):
            figures[number, turn] = list(person.look().values())
            ms[number, turn] = person.ms
            person.judge(plan.judged)
    samples = random.integers(0, len(selected), (1000, len(selected)))
    resampled = np.nanmean(figures[samples], axis=1)
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0)
    return {
        "queries": len(selected),
        **{name: getattr(plan, name) for name in ("draw", "seed", "method", "parameters", "examples")},
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
            for turn in range(plan.rounds + 1)
        ],
    }


def _examples(labels: list[str], query: int, plan: Simulation) -> list[int]:
    """Return the query and further images with its label, the same for each method, fewer where there are few."""
    others = [image for image, label in enumerate(labels) if label == labels[query] and image != query]
    order = np.random.default_rng([plan.seed, query]).permutation(others)
    return [query, *order[: plan.examples - 1].tolist()]


def parse_method(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a method with parameters, as eprf:P=9."""
    name, *settings = text.split(":")
    return name, parse_parameters(settings)


def print_result(result: dict[str, Any]) -> None:
    """Print a row for each round."""
    given = "".join(f":{name}={value}" for name, value in result["parameters"].items())
    for turn in result["rounds"]:
        cells = [
            "{:8.3f} [{:.3f}, {:.3f}]".format(turn[name]["mean"], *turn[name]["interval"])
            for name in MEASURES
        ]
        label = f"{result['method'] + given:<16} {result['examples']:>8}"
        print(f"{label} {turn['round']:>5} " + " ".join(cells) + f" {turn['ms']:6.1f}", flush=True)


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
    parser.add_argument("--methods", nargs="+", default=["feedback"], help="as feedback or eprf:P=9")
    parser.add_argument("--examples", type=int, nargs="+", default=[1], help="images of a query")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=cores())
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="SVG file of the first method to write")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder, indexed(options, Path(folder)) as collection:
        print(f"{options.queries} queries, drawn from {options.draw}")
        print("method           examples round " + " ".join(f"{name:>22}" for name in MEASURES) + "     ms")
        for examples in options.examples:
            for name, parameters in map(parse_method, options.methods):
                plan = Simulation(
                    queries=options.queries,
                    rounds=options.rounds,
                    judged=options.judged,
                    seed=options.seed,
                    draw=options.draw,
                    method=name,
                    parameters=parameters,
                    examples=examples,
                )
                results.append(simulate(collection, plan))
                print_result(results[-1])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        plot(results[0], options.plot)


if __name__ == "__main__":
    main()
