"""How good every descriptor and every re-ranker is on a folder of labelled images.

Indexes the folder once for each descriptor, evaluates each with `cbir evaluate run`, and prints the tables of
docs/results.md; --plot draws its chart.
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

DESCRIPTORS = ("color_layout", "edge_histogram", "tamura", "huang2012")
TASKS: dict[str, tuple[str, ...]] = {
    "label": ("--relevance", "label", "--measures", "AP P@1 P@10 nDCG@10 ANMRR mMV@5"),
    "modality+anatomy": ("--relevance", "modality+anatomy", "--measures", "AP P@1 P@10 nDCG@10 ANMRR mMV@5"),
    "grade within knees": (
        "--relevance", "anatomy+grade", "--where", "anatomy=knee",
        "--measures", "nDCG@10 nDCG AP P@10 ANMRR kNNError@5",
    ),
}  # fmt: skip


def cbir(*arguments: str | Path) -> None:
    """Run a command, which says on standard error how far it is."""
    done = subprocess.run(
        [sys.executable, "-m", "cbir.main", *map(str, arguments)], stdout=subprocess.DEVNULL
    )
    if done.returncode not in (0, 3):  # 3: some files of the folder are no images
        raise SystemExit(done.returncode)


def evaluate(chosen: argparse.Namespace, descriptor: str, task: str) -> dict[str, Any]:
    """The summary of one descriptor's evaluation, made unless it is there."""
    collection = chosen.out / descriptor
    if not collection.exists():
        profile = ("--collection", collection, "--profile", descriptor)
        cbir("index", chosen.images, "--labels", chosen.images / "manifest.csv", *profile)
    out = chosen.out / f"{descriptor} {task}"
    if not (out / "summary.json").exists():
        limits = ("--sample", str(chosen.sample), "--depth", str(chosen.depth), "--rerank", "all")
        cbir("evaluate", "run", "--collection", collection, "--out", out, *TASKS[task], *limits)
        for run in (out / "runs").glob("*.run"):
            run.unlink()  # some hundred megabytes each
    found: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """A Markdown table: descriptors and methods by measures, with intervals; * where p after Holm is below 0.05."""
    names = list(next(iter(found.values()))["runs"][0]["measures"])
    lines = [f"| descriptor | re-ranking | {' | '.join(names)} |", "| --- " * (len(names) + 2) + "|"]
    for descriptor, summary in found.items():
        for run in summary["runs"]:
            cells = [_cell(run["measures"][name]) for name in names]
            lines.append(f"| {descriptor} | {run['name']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(measure: dict[str, float]) -> str:
    sure = r"\*" if measure.get("p_holm", 1.0) < 0.05 else ""
    return f"{measure['mean']:.3f}{sure} ({measure['low']:.3f}–{measure['high']:.3f})"


def plot(found: dict[str, dict[str, Any]], methods: Sequence[str]) -> str:
    """Precision-recall curves as an SVG file of its own: a colour for each descriptor, a dash for each method."""
    series, styles = [], []
    for dash, method in enumerate(methods):
        for colour, (descriptor, summary) in enumerate(found.items()):
            curve = next(run["precision_at_recall"] for run in summary["runs"] if run["name"] == method)
            series.append((f"{descriptor} {method}", list(curve.values())))
            styles.append(charts.line_style(colour, dash))
    recalls = [float(recall) for recall in curve]
    chart = charts.line_chart(series, recalls, "recall", "interpolated precision", styles=styles)
    return charts.standalone_svg(chart)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("images", type=Path, help="folder with manifest.csv")
    options.add_argument("--out", type=Path, required=True, help="folder for collections and results")
    options.add_argument("--plot", type=Path, help="SVG file to write")
    options.add_argument("--sample", type=int, default=1000)
    options.add_argument("--depth", type=int, default=2500)
    chosen = options.parse_args()
    for task in TASKS:
        found = {descriptor: evaluate(chosen, descriptor, task) for descriptor in DESCRIPTORS}
        first = found[DESCRIPTORS[0]]
        shallow = first["terms"]["shallower_than_anmrr"]
        bound = f" For {shallow} queries ANMRR looks deeper, and is an upper bound." if shallow else ""
        print(f"### {task}\n\n{first['queries']['evaluated']} queries, {first['relevance']['candidates']} images. "
              f"{first['relevance']['meaning']}{bound}\n\n{table(found)}\n")  # fmt: skip
        if chosen.plot and task == "label":
            chosen.plot.write_text(plot(found, ("none", rerank.resolve_name("auto"))))


if __name__ == "__main__":
    main()
