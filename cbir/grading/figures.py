"""Figures 6, 8 and 9 of Huang et al. 2010 as SVG: box plots of NDCG, histogram of errors, grades against grades."""

from collections.abc import Callable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.report.charts import BOTTOM, LEFT, RIGHT, WIDTH

Floats = NDArray[np.float64]
Place = Callable[[float], float]

HEIGHT, TOP = 400, 24
MOST_TICKS = 8
BINS_A_GRADE, MOST_BINS = 4, 400
JITTER = 0.12  # of a grade, so that equal ones do not cover each other
MOST_POINTS = 3000
BOX = 26  # half the width of a box, pixels


def boxes(samples: Sequence[tuple[str, Floats]]) -> str:
    """Box-and-whisker plots of NDCG, up to 1."""
    low = min(float(values.min(initial=1.0)) for _, values in samples)
    return boxes_within(samples, (max(0.0, np.floor(low * 10) / 10), 1.0), "NDCG", "NDCG of lists")


def boxes_within(
    samples: Sequence[tuple[str, Floats]], y_range: tuple[float, float], y_title: str, title: str
) -> str:
    """Box-and-whisker plots: median, quartiles, furthest values within 1.5 interquartile ranges, others."""
    parts, _, y = _frame((0, 1), y_range, "", y_title, with_x=False)
    step = (WIDTH - LEFT - RIGHT) / len(samples)
    for number, (name, values) in enumerate(samples):
        x = LEFT + (number + 0.5) * step
        parts.append(_text("label", x, HEIGHT - 22, name))
        if not len(values):
            continue
        first, median, third = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
        reach = 1.5 * (third - first)
        inside = values[(values >= first - reach) & (values <= third + reach)]
        look = f"s{number % 8}"
        parts += [
            _line(f"line {look}", x, y(inside.min()), x, y(first)),
            _line(f"line {look}", x, y(third), x, y(inside.max())),
            f'<rect class="line {look}" x="{x - BOX:.1f}" y="{y(third):.1f}" width="{2 * BOX}" '
            f'height="{max(y(first) - y(third), 1):.1f}"><title>{escape(name)}: median {median:.4f}</title></rect>',
            _line(f"line {look}", x - BOX, y(median), x + BOX, y(median)),
        ]
        parts += [
            f'<circle class="bar {look}" cx="{x:.1f}" cy="{y(value):.1f}" r="2"/>'
            for value in values[(values < first - reach) | (values > third + reach)]
        ]
    return _svg(parts, title)


def histogram(errors: Floats) -> str:
    """How many images have which error, predicted less true grade."""
    reach = max(1.0, np.ceil(float(np.abs(errors).max(initial=0.0))))
    bins = min(int(2 * reach * BINS_A_GRADE), MOST_BINS) + 1
    counts, edges = np.histogram(errors, bins, (-reach - 0.125, reach + 0.125))
    parts, x, y = _frame(
        (edges[0], edges[-1]), (0, max(1, counts.max())), "predicted less true grade", "images"
    )
    for count, left, right in zip(counts, edges, edges[1:], strict=False):
        parts.append(
            f'<rect class="bar s0" x="{x(left):.1f}" y="{y(count):.1f}" width="{x(right) - x(left) - 1:.1f}" '
            f'height="{y(0) - y(count):.1f}"><title>{left:.2f} to {right:.2f}: {count}</title></rect>'
        )
    return _svg(parts, "histogram of errors")


def scatter(predicted: Floats, grades: Floats) -> str:
    """Predicted against true grades; between the lines they are at most one apart."""
    low, high = float(min(predicted.min(), grades.min())), float(max(predicted.max(), grades.max()))
    within = (low - 0.5, high + 0.5)
    parts, x, y = _frame(within, within, "true grade", "predicted grade")
    random = np.random.default_rng(0)
    shown = np.sort(random.permutation(len(grades))[:MOST_POINTS])
    off = random.uniform(-JITTER, JITTER, (2, len(shown)))
    for true, found in zip(grades[shown] + off[0], predicted[shown] + off[1], strict=True):
        parts.append(f'<circle class="bar s0" cx="{x(true):.1f}" cy="{y(found):.1f}" r="2" opacity="0.5"/>')
    for apart in (-1.0, 1.0):
        start, stop = max(within[0], within[0] - apart), min(within[1], within[1] - apart)
        parts.append(_line("line s1 d1", x(start), y(start + apart), x(stop), y(stop + apart)))
    return _svg(parts, "predicted and true grades")


def _frame(
    x_range: tuple[float, float],
    y_range: tuple[float, float],
    x_title: str,
    y_title: str,
    with_x: bool = True,
) -> tuple[list[str], Place, Place]:
    """Grid and axes, and where values are on them."""
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(value: float) -> float:
        return LEFT + (value - x_range[0]) / (x_range[1] - x_range[0]) * width

    def y(value: float) -> float:
        return TOP + (1 - (value - y_range[0]) / (y_range[1] - y_range[0])) * height

    parts = []
    for value in _ticks(*y_range):
        parts.append(_line("grid", LEFT, y(value), WIDTH - RIGHT, y(value)))
        parts.append(_text("tick", LEFT - 8, y(value) + 4, f"{value:g}", "end"))
    shown = _ticks(*x_range) if with_x else []
    parts += [_text("tick", x(value), HEIGHT - 24, f"{value:g}") for value in shown]
    parts.append(_text("axis", LEFT + width / 2, HEIGHT - 5, x_title))
    parts.append(_text("axis", 4, TOP - 10, y_title, "start"))
    return parts, x, y


def _ticks(low: float, high: float) -> list[float]:
    """Round values within a range, 8 at most."""
    steps = (step * 10.0**power for power in range(-2, 300) for step in (1, 2, 5))
    step = next(step for step in steps if (high - low) / step < MOST_TICKS)
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [round(step * place, 6) for place in range(first, last + 1)]


def _line(look: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{look}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(look: str, x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(parts: Sequence[str], title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )
