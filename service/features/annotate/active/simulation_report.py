"""Report of simulations: Figures 4 to 7 of Kadota et al. as HTML, and all numbers as JSON."""

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.report import charts
from cbir.evaluation.report.report_parts import render_page, render_table
from cbir.system.files import atomic_text, private_folder
from service.features.annotate.active.simulation import SimulationResult

PAGE, NUMBERS = "report.html", "report.json"


def write_simulation_report(results: Mapping[str, SimulationResult], folder: Path) -> None:
    """Write report.html and report.json of `results`, by name of the strategy, into `folder`."""
    private_folder(folder)
    with atomic_text(folder / NUMBERS) as file:
        json.dump(strict_json({name: result.as_dict() for name, result in results.items()}), file, indent=2)
    with atomic_text(folder / PAGE) as file:
        file.write(simulation_page(results))


def strict_json(values: object) -> object:
    """Make values valid in strict JSON: NaN and infinity become null."""
    return json.loads(json.dumps(values), parse_constant=lambda _: None)


def simulation_page(results: Mapping[str, SimulationResult]) -> str:
    """Return the report as self-contained HTML."""
    parts = [
        _section("Accuracy against labelling", "Ratio of pairs to images; accuracy on test images. "
                 "Overall: all pairs of grades have the same weight. Neighbouring: adjacent grades (Figure 4).",
                 [_curves(results, "overall"), _curves(results, "neighbouring")]),
    ]  # fmt: skip
    for name, result in results.items():
        first, last = result.rounds[0], result.rounds[-1]
        parts += [
            f"<h2>{escape(name)}</h2>",
            _section("Severity of each grade", "After the first and the last round (Figure 5).",
                     [_boxes(round_.scores, result.test_grades, "severity") for round_ in (first, last)]),
            _section("Selected images", "Share of each grade among the images in pairs (Figure 6).",
                     [_proportions(result)]),
            _section("Uncertainty of each grade", "Variance of the passes on training images, after the first "
                     "and the last round (Figure 7).",
                     [_boxes(round_.variance, result.train_grades, "variance") for round_ in (first, last)]),
        ]  # fmt: skip
    subtitle = "Answers simulated from known grades. Not a medical device."
    body = _table(results) + "".join(parts)
    return render_page("Learning from comparisons", subtitle, body, f"All numbers: {NUMBERS}.")


def _section(title: str, note: str, figures: list[str]) -> str:
    return f'<h3>{escape(title)}</h3><p class="note">{escape(note)}</p>{"".join(figures)}'


def _table(results: Mapping[str, SimulationResult]) -> str:
    columns = (
        "strategy",
        "pairs",
        "images",
        "overall",
        "neighbouring",
        "F1, rounded",
        "F1, thresholds",
        "seconds of a person",
    )
    rows = []
    for name, result in results.items():
        last = result.rounds[-1]
        f1 = [f"{of['f1']:.3f}" if of else "–" for of in (last.classified, last.classified_by_thresholds)]
        cells = (name, f"{last.pairs}", f"{last.images}", f"{last.relative['overall']:.3f}",
                 f"{last.relative['neighbouring']:.3f}", *f1, f"{last.seconds:,.0f}")  # fmt: skip
        rows.append([escape(cell) for cell in cells])
    return render_table(columns, rows)


def _curves(results: Mapping[str, SimulationResult], measure: str) -> str:
    """Draw the accuracy after each round, over the labelling ratios of the strategy with the most rounds."""
    longest = max((result.rounds for result in results.values()), key=len)
    xs = [round_.labelling for round_ in longest]
    xs = xs if len(xs) > 1 else [0.0, *xs]  # a single round is no curve
    series = []
    for name, result in results.items():
        values = [round_.as_dict()[measure] for round_ in result.rounds]
        series.append((name, [*values, *[values[-1]] * (len(xs) - len(values))]))
    finite = [value for _, values in series for value in values if np.isfinite(value)]
    if not finite:
        return '<p class="note">All test images have the same grade.</p>'
    low, high = charts.round_range(finite)
    above = max(0.0, high - 1.0)  # accuracy is at most 1
    return charts.line_chart(series, xs, "labelling ratio", f"accuracy, {measure}", x_range=charts.round_range(xs),
                        y_range=(low - above, high - above))  # fmt: skip


def _boxes(values: NDArray[np.float32], grades: NDArray[np.float64], quantity: str) -> str:
    levels = np.unique(grades)
    samples = [(f"grade {level:g}", values[grades == level].astype(np.float64)) for level in levels]
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or 1.0
    return charts.box_chart(samples, (low - margin, high + margin), quantity, f"{quantity} by grade")


def _proportions(result: SimulationResult) -> str:
    """Draw bars for the first, the middle and the last round."""
    numbers = sorted({0, (len(result.rounds) - 1) // 2, len(result.rounds) - 1})
    names = [f"{result.rounds[number].labelling:.0%} of pairs" for number in numbers]
    rows = []
    for grade, share in result.rounds[-1].proportions.items():
        shares = [result.rounds[number].proportions[grade] for number in numbers]
        rows.append((f"grade {grade}", f"{share:.1%}", shares))
    return charts.bar_chart(rows, names, "share of each grade")
