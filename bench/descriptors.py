"""Retrieval quality of every descriptor, the default profile and every re-ranker on a folder of labelled images.

Indexes the folder once for each descriptor, evaluates each with `cbir evaluate run`, and prints the tables of
bench/results/descriptors.md; --plot draws its chart.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cbir import rerank
from cbir.evaluation.report import charts
from cbir.evaluation.report.charts import standalone_svg
from cbir.store.writing.default_profile import DEFAULT_PROFILE

DESCRIPTORS = ("color_layout", "edge_histogram", "tamura", "huang2012", DEFAULT_PROFILE)
TASKS: dict[str, tuple[str, ...]] = {
    "label": ("--relevance", "label", "--measures", "AP P@1 P@10 nDCG@10 ANMRR mMV@5"),
    "modality+anatomy": ("--relevance", "modality+anatomy", "--measures", "AP P@1 P@10 nDCG@10 ANMRR mMV@5"),
    "grade within knees": (
        "--relevance", "anatomy+grade", "--where", "anatomy=knee",
        "--measures", "nDCG@10 nDCG AP P@10 ANMRR kNNError@5",
    ),
}  # fmt: skip


def cbir(*arguments: str | Path) -> None:
    """Run a command, which reports its progress on standard error."""
    process = subprocess.run(
        [sys.executable, "-m", "cbir.api.main", *map(str, arguments)], stdout=subprocess.DEVNULL
    )
    if process.returncode not in (0, 3):  # 3: some files of the folder are not images
        raise SystemExit(process.returncode)


def evaluate(options: argparse.Namespace, descriptor: str, task: str) -> dict[str, Any]:
    """Return the summary of one descriptor's evaluation; run it unless the summary exists."""
    collection = options.out / descriptor
    if not collection.exists():
        profile = ("--collection", collection, "--profile", descriptor)
        cbir("index", options.images, "--labels", options.images / "manifest.csv", *profile)
    out = options.out / f"{descriptor} {task}"
    if not (out / "summary.json").exists():
        limits = ("--sample", str(options.sample), "--depth", str(options.depth), "--rerank", "all")
        cbir("evaluate", "run", "--collection", collection, "--out", out, *TASKS[task], *limits)
        for run in (out / "runs").glob("*.run"):
            run.unlink()  # some hundred megabytes each
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


def table(summaries: dict[str, dict[str, Any]]) -> str:
    """Format a Markdown table of metrics with intervals; * if p after Holm is below 0.05."""
    names = list(next(iter(summaries.values()))["runs"][0]["measures"])
    lines = [f"| descriptor | re-ranking | {' | '.join(names)} |", "| --- " * (len(names) + 2) + "|"]
    for descriptor, summary in summaries.items():
        for run in summary["runs"]:
            cells = [_cell(run["measures"][name]) for name in names]
            lines.append(f"| {descriptor} | {run['name']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(measure: dict[str, float]) -> str:
    mark = r"\*" if measure.get("p_holm", 1.0) < 0.05 else ""
    return f"{measure['mean']:.3f}{mark} ({measure['low']:.3f}–{measure['high']:.3f})"


def plot(summaries: dict[str, dict[str, Any]], methods: Sequence[str]) -> str:
    """Draw precision-recall curves as SVG: a colour for each descriptor, a dash for each method."""
    series, styles = [], []
    for dash, method in enumerate(methods):
        for colour, (descriptor, summary) in enumerate(summaries.items()):
            curve = next(run["precision_at_recall"] for run in summary["runs"] if run["name"] == method)
            series.append((f"{descriptor} {method}", list(curve.values())))
            styles.append(charts.line_style(colour, dash))
    recalls = [float(recall) for recall in curve]
    chart = charts.line_chart(series, recalls, "recall", "interpolated precision", styles=styles)
    return standalone_svg(chart)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path, help="folder with manifest.csv")
    parser.add_argument("--out", type=Path, required=True, help="folder for collections and results")
    parser.add_argument("--descriptors", nargs="+", default=DESCRIPTORS)
    parser.add_argument("--plot", type=Path, help="SVG file to write")
    parser.add_argument("--sample", type=int, default=1000)
    parser.add_argument("--depth", type=int, default=2500)
    options = parser.parse_args()
    for task in TASKS:
        summaries = {descriptor: evaluate(options, descriptor, task) for descriptor in options.descriptors}
        first = summaries[options.descriptors[0]]
        shallow = first["terms"]["shallower_than_anmrr"]
        bound = f" For {shallow} queries ANMRR needs more answers, and is an upper bound." if shallow else ""
        print(f"### {task}\n\n{first['queries']['evaluated']} queries, {first['relevance']['candidates']} images. "
              f"{first['relevance']['meaning']}{bound}\n\n{table(summaries)}\n")  # fmt: skip
        if options.plot and task == "label":
            options.plot.write_text(plot(summaries, ("none", rerank.resolve_name("auto"))))


if __name__ == "__main__":
    main()
