"""Results of an evaluation: summary.json, queries.csv, the qrels, the terms to repeat it, and a table of means."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import cbir
from cbir.evaluation.experiment import RECALLS, EvalResult
from cbir.evaluation.run_files import qrel_lines
from cbir.evaluation.runs import EvalRun
from cbir.evaluation.significance import RESAMPLES
from cbir.system.console import results_console
from cbir.system.files import atomic_text, file_sha256, write_rows

PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "faiss-cpu",
    "opencv-python-headless",
    "onnxruntime",
    "pillow",
    "pydicom",
)
COLLECTION_TERMS = ("created", "generation", "images", "profile_hash")
TERMS = ("cbir", "python", "ir_measures", "versions", "settings", "collection")
SIGNIFICANT = 0.05


def package_versions() -> dict[str, str]:
    """Return the versions of installed packages that decide vectors and rankings."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def file_digests(folder: Path, runs: Sequence[EvalRun]) -> dict[str, str]:
    """Return the SHA-256 of the files in the folder of a result that hold its figures, and of its runs, by name."""
    names = ["qrels.txt", "queries.csv"]
    return {name: file_sha256(folder / name) for name in names} | {
        f"runs/{run.method.file}": file_sha256(folder / run.file) for run in runs
    }


def compare_with_result(path: Path, summary: Mapping[str, Any]) -> list[str] | None:
    """Compare an evaluation with the stated one of a summary.json.

    Parameters
    ----------
    path : Path
        A configuration, of which only results state terms and digests.
    summary : mapping
        Of the evaluation, as in summary.json.

    Returns
    -------
    list of str or None
        Differences in words, none if everything is the same; None if the file states no result.
    """
    if path.suffix.lower() == ".toml":
        return None
    stated = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(stated.get("files"), dict):
        return None
    differences = [
        f"{name} {_short(now)}, then {_short(then)}"
        for key in TERMS
        for name, now, then in _terms(key, summary.get(key), stated.get(key))
        if now != then
    ]
    files = {**stated["files"], **summary["files"]}
    return differences + [
        f"another content of {name}"
        for name in files
        if stated["files"].get(name) != summary["files"].get(name)
    ]


def _terms(key: str, now: Any, then: Any) -> Iterator[tuple[str, Any, Any]]:
    if not isinstance(now, dict) or not isinstance(then, dict):
        yield key, now, then
        return
    names = COLLECTION_TERMS if key == "collection" else sorted({*now, *then})
    for name in names:
        yield f"{key}: {name}" if key != "versions" else name, now.get(name), then.get(name)


def _short(value: Any) -> str:
    return "missing" if value is None else str(value)


def build_summary(result: EvalResult) -> dict[str, Any]:
    """Return everything but the values of single queries, ready for JSON."""
    plan, qrels = result.plan, result.qrels
    return {
        "cbir": cbir.__version__,
        "ir_measures": version("ir-measures"),
        "python": sys.version.split()[0],
        "versions": package_versions(),
        "collection": {"folder": str(plan.collection)} | result.collection,
        "queries": {
            "from": str(plan.queries or "leave-one-out"),
            "given": result.query_count,
            "sample": plan.sample,
            "seed": plan.seed,
            "evaluated": len(qrels.queries),
            "without_relevant": [query.name for query in qrels.without_relevant],
        }
        | ({"where": list(plan.queries_where)} if plan.queries_where else {}),
        "relevance": {
            "by": plan.relevance.text,
            "meaning": plan.relevance.in_words(qrels.spread),
            "level": qrels.level,
            "largest_gain": max(qrels.spread, 1),
            "candidates": len(result.candidates),
            "unjudged_candidates": qrels.unjudged,
        },
        "terms": {
            "depth": result.depth,
            "where": list(plan.where),
            "same_patient": plan.same_patient,
            "shallower_than_anmrr": result.shallow,
            "bootstrap_resamples": RESAMPLES,
        },
        "runs": [_run(result, number) for number in range(len(result.runs))],
    }


def _run(result: EvalResult, number: int) -> dict[str, Any]:
    run, difference = result.runs[number], result.differences[number]
    metrics = result.plan.metrics
    classes = class_means(result, number)
    measures: dict[str, Any] = {}
    for m, metric in enumerate(metrics):
        mean, low, high = (float(values[number, m]) for values in (result.means, result.low, result.high))
        macro = float(np.mean([means[m] for _, _, means in classes]))
        measures[metric.name] = {"mean": mean, "low": low, "high": high, "class_mean": macro}
        if result.by_fold is not None:
            folds = result.by_fold[number, m]
            spread = {"mean": float(folds.mean()), "deviation": float(folds.std(ddof=1))}
            measures[metric.name]["folds"] = {"means": folds.tolist()} | spread
        if difference:
            shift, p, p_holm = (float(v[m]) for v in (difference.mean, difference.p, difference.p_holm))
            measures[metric.name] |= {"difference": shift, "p": p, "p_holm": p_holm}
    return {
        "name": run.method.name,
        "file": run.file,
        **run.facts,
        "unjudged_in_first_10": float(result.unjudged[number]),
        "measures": measures,
        "classes": {
            title: {metric.name: float(mean) for metric, mean in zip(metrics, means, strict=True)}
            for title, _, means in classes
        },
        "precision_at_recall": dict(zip(map(str, RECALLS), result.curves[number].tolist(), strict=True)),
    }


def class_means(result: EvalResult, number: int) -> list[tuple[str, int, list[float]]]:
    """Return title, number of queries and means (m,) of each class of a run's queries, by title."""
    classes = result.qrels.query_classes
    means = []
    for code in np.unique(classes).tolist():
        values = result.values[number][:, classes == code]
        means.append((result.qrels.titles[code], values.shape[1], values.mean(axis=1).tolist()))
    return sorted(means)


def write_queries(result: EvalResult, path: Path) -> None:
    """Write a csv with a row for each run and query: name, class, relevant images and every metric.

    Queries without relevant images come last, without metrics; `row` is that of the csv of queries. A cell that a
    spreadsheet would run as a formula begins with an apostrophe.
    """
    with atomic_text(path) as file:
        write_rows(file, _query_rows(result))


def _query_rows(result: EvalResult) -> Iterator[list[Any]]:
    qrels = result.qrels
    names = [metric.name for metric in result.plan.metrics]
    yield ["run", "query", "row", "class", "relevant", *names]
    for number, run in enumerate(result.runs):
        for q, query in enumerate(qrels.queries):
            title = qrels.titles[qrels.query_classes[q]]
            values = [f"{value:.6g}" for value in result.values[number, :, q].tolist()]
            yield [run.method.name, query.name, query.row, title, qrels.relevant[q], *values]
    for query in qrels.without_relevant:
        title = " / ".join(qrels.relevance.class_of(query.labels) or ())
        yield ["", query.name, query.row, title, 0, *([""] * len(names))]


def write_qrels(result: EvalResult, path: Path) -> None:
    """Write the images with a gain for each evaluated query."""
    qrels, records = result.qrels, result.candidates.records
    with atomic_text(path) as file:
        for query, positions, gains in zip(qrels.queries, qrels.positions, qrels.gains, strict=True):
            images = [records[position].image_id for position in positions.tolist()]
            file.writelines(f"{line}\n" for line in qrel_lines(query.name, images, gains.tolist()))


def format_p(p: float) -> str:
    """Format a p value as papers print it."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def print_means(result: EvalResult) -> None:
    """Print the means of each method with their intervals, the differences from the first one, and the queries."""
    from rich.table import Table

    metrics = result.plan.metrics
    table = Table("method", *(metric.name for metric in metrics), "seconds", box=None)
    for number, run in enumerate(result.runs):
        cells = ["\n".join(_mean_lines(result, number, m)) for m in range(len(metrics))]
        table.add_row(run.method.name, *cells, run.seconds)
    console = results_console()
    console.print(table, highlight=False)
    legend = "mean and 95 % interval"
    if len(result.runs) > 1:
        legend += f"; difference from {result.runs[0].method.name} with its p value (paired test, Holm's correction)"
    console.print(legend, style="dim", highlight=False)
    if result.by_fold is not None:
        console.print(f"mean ± standard deviation of {result.by_fold.shape[2]} folds of the queries")
        folds = Table("method", *(metric.name for metric in metrics), box=None)
        for row in fold_rows(result):
            folds.add_row(*row)
        console.print(folds)
    console.print(_describe_queries(result), highlight=False)
    if result.qrels.without_relevant:
        console.print(
            f"{len(result.qrels.without_relevant)} more have no relevant image and are left out of the means",
            style="yellow",
        )


def _mean_lines(result: EvalResult, number: int, m: int) -> list[str]:
    """Return mean, interval and difference from the first method of a run's metric, a line each."""
    mean, low, high = (float(values[number, m]) for values in (result.means, result.low, result.high))
    lines = [f"{mean:.4f}", f"{low:.3f}-{high:.3f}"]
    if difference := result.differences[number]:
        lines += [f"{float(difference.mean[m]):+z.4f}", f"p {format_p(float(difference.p_holm[m]))}"]
    return lines


def _describe_queries(result: EvalResult) -> str:
    count, sample = len(result.qrels.queries), result.plan.sample
    if sample is None or sample >= result.query_count:
        return f"{count} queries"
    classes = len(set(result.qrels.query_classes.tolist()))
    return f"{count} of {result.query_count} queries, evenly from {classes} classes: means of all of them may differ"


def fold_rows(result: EvalResult) -> Iterator[list[str]]:
    """Return the name of each method with mean and standard deviation of its folds by metric."""
    assert result.by_fold is not None
    for run, folds in zip(result.runs, result.by_fold, strict=True):
        yield [run.method.name, *(f"{means.mean():.4f} ± {means.std(ddof=1):.4f}" for means in folds)]
