"""What an evaluation found, for programs: summary.json, queries.csv and the qrels."""

import csv
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import cbir
from cbir.atomic import atomic_text
from cbir.evaluation.experiment import RECALLS, EvalResult
from cbir.evaluation.significance import RESAMPLES
from cbir.evaluation.trec import qrel_lines


def build_summary(evaluation: EvalResult) -> dict[str, Any]:
    """Everything but the values of single queries, ready for JSON."""
    plan, judgements = evaluation.plan, evaluation.judgements
    return {
        "cbir": cbir.__version__,
        "ir_measures": version("ir-measures"),
        "python": sys.version.split()[0],
        "collection": {"folder": str(plan.collection)} | evaluation.collection,
        "queries": {
            "from": str(plan.queries or "leave-one-out"),
            "given": evaluation.asked,
            "sample": plan.sample,
            "seed": plan.seed,
            "evaluated": len(judgements.queries),
            "without_relevant": [query.name for query in judgements.without_relevant],
        },
        "relevance": {
            "by": plan.relevance.text,
            "meaning": plan.relevance.in_words(judgements.spread),
            "level": judgements.level,
            "largest_gain": max(judgements.spread, 1),
            "candidates": len(evaluation.candidates),
            "unjudged_candidates": judgements.unjudged,
        },
        "terms": {
            "depth": evaluation.depth,
            "where": list(plan.where),
            "same_patient": plan.same_patient,
            "shallower_than_anmrr": evaluation.shallow,
            "bootstrap_resamples": RESAMPLES,
        },
        "runs": [_run(evaluation, number) for number in range(len(evaluation.runs))],
    }


def _run(evaluation: EvalResult, number: int) -> dict[str, Any]:
    run, against = evaluation.runs[number], evaluation.against[number]
    measures: dict[str, Any] = {}
    for m, measure in enumerate(evaluation.plan.measures):
        found = {
            "mean": float(evaluation.means[number, m]),
            "low": float(evaluation.low[number, m]),
            "high": float(evaluation.high[number, m]),
        }
        if against:
            found["difference"] = float(against.difference[m])
            found["p"] = float(against.p[m])
            found["p_holm"] = float(against.corrected[m])
        measures[measure.name] = found
    return {
        "name": run.method.name,
        "file": f"runs/{run.method.file}",
        **run.facts,
        "unjudged_in_first_10": float(evaluation.unjudged[number]),
        "measures": measures,
        "classes": {
            title: {
                measure.name: float(v) for measure, v in zip(evaluation.plan.measures, means, strict=True)
            }
            for title, _, means in class_means(evaluation, number)
        },
        "precision_at_recall": dict(zip(map(str, RECALLS), evaluation.curves[number].tolist(), strict=True)),
    }


def class_means(evaluation: EvalResult, number: int) -> list[tuple[str, int, list[float]]]:
    """Title, number of queries and means (m,) of each class of a run's queries, by title."""
    classes = evaluation.judgements.query_classes
    found = []
    for its_class in np.unique(classes).tolist():
        own = evaluation.values[number][:, classes == its_class]
        found.append((evaluation.judgements.titles[its_class], own.shape[1], own.mean(axis=1).tolist()))
    return sorted(found)


def write_queries(evaluation: EvalResult, path: Path) -> None:
    """A csv with a row for each run and query: its name, class, relevant images and every measure.

    Queries without relevant images stand at the end, without measures; `row` is that of the csv of queries.
    """
    judgements = evaluation.judgements
    with atomic_text(path) as file:
        rows = csv.writer(file, lineterminator="\n")
        names = [measure.name for measure in evaluation.plan.measures]
        rows.writerow(["run", "query", "row", "class", "relevant", *names])
        for number, run in enumerate(evaluation.runs):
            for place, query in enumerate(judgements.queries):
                title = judgements.titles[judgements.query_classes[place]]
                values = [f"{value:.6g}" for value in evaluation.values[number, :, place].tolist()]
                known = [run.method.name, query.name, query.row, title, judgements.relevant[place]]
                rows.writerow([*known, *values])
        for query in judgements.without_relevant:
            title = " / ".join(judgements.relevance.class_of(query.labels) or ())
            rows.writerow(["", query.name, query.row, title, 0, *([""] * len(names))])


def write_qrels(evaluation: EvalResult, path: Path) -> None:
    """The images with a gain for each evaluated query; an image that is not listed has none."""
    judgements, records = evaluation.judgements, evaluation.candidates.records
    with atomic_text(path) as file:
        for query, places, gains in zip(judgements.queries, judgements.places, judgements.gains, strict=True):
            images = [records[place].image_id for place in places.tolist()]
            file.writelines(f"{line}\n" for line in qrel_lines(query.name, images, gains.tolist()))
