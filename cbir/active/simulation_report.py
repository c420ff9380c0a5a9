"""What simulations leave to be looked at: Figures 4 to 7 of Kadota et al. on a page, and all numbers as JSON."""

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import cbir
from cbir.active.simulation import SimulationResult
from cbir.atomic import atomic_text
from cbir.evaluation.report import charts
from cbir.evaluation.report.svg_figure import style_sheet

PAGE, NUMBERS = "report.html", "report.json"


def write_simulation_report(found: Mapping[str, SimulationResult], folder: Path) -> None:
    """Write report.html and report.json of simulations, by the name of their strategy, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_text(folder / NUMBERS) as file:
        json.dump(strict_json({name: one.told() for name, one in found.items()}), file, indent=2)
    with atomic_text(folder / PAGE) as file:
        file.write(simulation_page(found))


def strict_json(values: object) -> object:
    """The same for strict JSON: null where something is not defined."""
    return json.loads(json.dumps(values), parse_constant=lambda _: None)


def simulation_page(found: Mapping[str, SimulationResult]) -> str:
    """The HTML, which needs no other file."""
    parts = [
        _section("Accuracy against labelling", "Pairs in relation to images; on images that nothing was learnt from. "
                 "Overall: every two grades weigh the same. Neighbouring: grades next to each other (Figure 4).",
                 [_curves(found, "overall"), _curves(found, "neighbouring")]),
    ]  # fmt: skip
    for name, one in found.items():
        first, last = one.rounds[0], one.rounds[-1]
        parts += [
            f"<h2>{escape(name)}</h2>",
            _section("Severity of each grade", "After the first round, and after the last (Figure 5).",
                     [_boxes(of.scores, one.tested, "severity") for of in (first, last)]),
            _section("Images asked about", "Share of each grade among the images in pairs (Figure 6).",
                     [_proportions(one)]),
            _section("Uncertainty of each grade", "Variance of the passes over images learnt from, after the first "
                     "round and after the last (Figure 7).",
                     [_boxes(of.variance, one.known, "variance") for of in (first, last)]),
        ]  # fmt: skip
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Learning from comparisons</title><style>{style_sheet()}</style></head><body>
<h1>Learning from comparisons</h1>
<p class="sub">Answers from known grades in the place of a person. Not a medical device.</p>
{_table(found)}
{"".join(parts)}
<p class="note">cbir {cbir.__version__}. Everything here as numbers: {NUMBERS}.</p>
</body></html>
"""


def _section(title: str, note: str, drawn: list[str]) -> str:
    return f'<h3>{escape(title)}</h3><p class="note">{escape(note)}</p>{"".join(drawn)}'


def _table(found: Mapping[str, SimulationResult]) -> str:
    columns = ("strategy", "pairs", "images", "overall", "neighbouring", "F1", "a person's seconds")
    rows = []
    for name, one in found.items():
        last = one.rounds[-1]
        f1 = f"{last.classified['f1']:.3f}" if last.classified else "–"
        cells = (name, f"{last.pairs}", f"{last.images}", f"{last.relative['overall']:.3f}",
                 f"{last.relative['neighbouring']:.3f}", f1, f"{last.seconds:,.0f}")  # fmt: skip
        rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _curves(found: Mapping[str, SimulationResult], measure: str) -> str:
    """Accuracy after each round; strategies share the labelling ratios of the one with the most rounds."""
    longest = max(found.values(), key=lambda one: len(one.rounds)).rounds
    xs = [one.labelling for one in longest]
    if len(xs) < 2:  # a single round is no curve
        xs = [0.0, xs[0]]
    series = []
    for name, one in found.items():
        values = [round_.told()[measure] for round_ in one.rounds]
        series.append((name, [*values, *[values[-1]] * (len(xs) - len(values))]))
    known = [value for _, values in series for value in values if np.isfinite(value)]
    if not known:
        return '<p class="note">All images to test on have one grade.</p>'
    low, high = charts.round_range(known)
    above = max(0.0, high - 1.0)  # no accuracy is
    return charts.line_chart(series, xs, "labelling ratio", f"accuracy, {measure}", x_range=charts.round_range(xs),
                        y_range=(low - above, high - above))  # fmt: skip


def _boxes(values: NDArray[np.float32], grades: NDArray[np.float64], what: str) -> str:
    samples = [
        (f"grade {level:g}", values[grades == level].astype(np.float64)) for level in np.unique(grades)
    ]
    low, high = float(values.min()), float(values.max())
    room = 0.05 * (high - low) or 1.0
    return charts.box_chart(samples, (low - room, high + room), what, f"{what} by grade")


def _proportions(one: SimulationResult) -> str:
    """Bars for the first round, the one in the middle and the last."""
    shown = sorted({0, (len(one.rounds) - 1) // 2, len(one.rounds) - 1})
    names = [f"{one.rounds[number].labelling:.0%} of pairs" for number in shown]
    rows = []
    for grade, share in one.rounds[-1].proportions.items():
        shares = [one.rounds[number].proportions[grade] for number in shown]
        rows.append((f"grade {grade}", f"{share:.1%}", shares))
    return charts.bar_chart(rows, names, "share of each grade")
