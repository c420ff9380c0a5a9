"""Report of an evaluation of graders: figures 6, 8 and 9 of Huang et al. 2010 as SVG, and all numbers as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.report.charts import COLOURS, DASHES, box_chart, standalone_svg, svg_figure
from cbir.learn.grading.grader_evaluation import GraderEvaluation, compare_graders
from cbir.system.files import atomic_text, private_folder

Floats = NDArray[np.float64]

BINS_PER_GRADE, MAX_BINS = 4, 400
JITTER = 0.12  # of a grade, so that equal grades do not cover each other
MAX_POINTS = 3000


def ndcg_boxes(samples: Sequence[tuple[str, Floats]]) -> str:
    """Draw box-and-whisker plots of NDCG, up to 1; `samples` are names with values (n,)."""
    low = min(float(values.min(initial=1.0)) for _, values in samples)
    return box_chart(samples, (max(0.0, np.floor(low * 10) / 10), 1.0), "NDCG", "NDCG of lists")


def error_histogram(errors: Floats) -> str:
    """Draw the histogram of `errors` (n,), predicted less true grade."""
    reach = max(1.0, np.ceil(float(np.abs(errors).max(initial=0.0))))
    bins = min(int(2 * reach * BINS_PER_GRADE), MAX_BINS) + 1
    counts, edges = np.histogram(errors, bins, (-reach - 0.125, reach + 0.125))
    with svg_figure(400, "histogram of errors") as chart:
        (axes,) = chart.axes
        bars = axes.bar(edges[:-1], counts, np.diff(edges) * 0.96, align="edge", color=COLOURS[0])
        for bar, count, left, right in zip(bars, counts, edges, edges[1:], strict=False):
            chart.mark(bar, "bar", f"{left:.2f} to {right:.2f}: {count}")
        axes.set(xlim=(edges[0], edges[-1]), xlabel="predicted less true grade", ylabel="images")
        axes.grid(visible=False, axis="x")
        return chart.svg()


def grade_scatter(predicted: Floats, grades: Floats) -> str:
    """Draw `predicted` (n,) over true `grades` (n,); between the two lines they differ by one at most."""
    low, high = float(min(predicted.min(), grades.min())), float(max(predicted.max(), grades.max()))
    limits = (low - 0.5, high + 0.5)
    random = np.random.default_rng(0)
    rows = np.sort(random.permutation(len(grades))[:MAX_POINTS])
    jitter = random.uniform(-JITTER, JITTER, (2, len(rows)))
    with svg_figure(400, "predicted and true grades") as chart:
        (axes,) = chart.axes
        x, y = grades[rows] + jitter[0], predicted[rows] + jitter[1]
        chart.mark(axes.scatter(x, y, s=16, color=COLOURS[0], alpha=0.5, linewidths=0), "dots", "images")
        for shift in (-1.0, 1.0):
            axes.plot(limits, (limits[0] + shift, limits[1] + shift), color=COLOURS[1], linestyle=DASHES[1])
        axes.set(xlim=limits, ylim=limits, xlabel="true grade", ylabel="predicted grade")
        return chart.svg()


def write_grading_report(evaluations: Sequence[GraderEvaluation], folder: Path) -> None:
    """Write ndcg.svg, errors-NAME.svg and grades-NAME.svg of each method, and summary.json into `folder`."""
    private_folder(folder)
    charts = {"ndcg.svg": ndcg_boxes([(method.name, method.lists) for method in evaluations])}
    for method in evaluations:
        charts[f"errors-{method.name}.svg"] = error_histogram(method.predicted - method.grades)
        charts[f"grades-{method.name}.svg"] = grade_scatter(method.predicted, method.grades)
    for name, chart in charts.items():
        with atomic_text(folder / name) as file:
            file.write(standalone_svg(chart))
    p, compared = compare_graders(evaluations)
    summary = {
        "methods": {method.name: {**method.overall, "folds": method.folds} for method in evaluations},
        "images": len(evaluations[0].tested),
        "anova_p": p,
        "tukey": [asdict(pair) for pair in compared],
    }
    with atomic_text(folder / "summary.json") as file:
        json.dump(json.loads(json.dumps(summary), parse_constant=lambda _: None), file, indent=2)
