"""Charts of the reports, as SVG text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from math import ceil, floor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.report.svg_figure import COLOURS, INK, RULE, SOFT, WIDTH, svg_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTER = 7.6  # pixels that a letter takes at most
LONGEST = 36  # letters of a bar's name
ROUNDING = 1e-9
STEPS = 5  # between the ticks of an axis
DASHES = ("-", (0, (5, 2.5)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))

Series = Sequence[tuple[str, Sequence[float]]]
Range = tuple[float, float]
LineStyle = tuple[str, Any]


@dataclass(frozen=True)
class LinePanel:
    """Curves over one pair of axes: each of `series` has a value for each of `xs`."""

    series: Series
    xs: Sequence[float]
    x_title: str
    y_title: str
    styles: Sequence[LineStyle] = field(default=())
    x_range: Range = (0.0, 1.0)
    y_range: Range = (0.0, 1.0)
    whole_numbers: bool = False  # xs are counts, such as epochs


def line_style(colour: int, dash: int) -> LineStyle:
    """Return a colour and a dash pattern; dashes separate curves that cover each other or print in grey."""
    return COLOURS[colour % len(COLOURS)], DASHES[dash % len(DASHES)]


def line_styles(count: int) -> list[LineStyle]:
    """Return a style for each of `count` series; the first 32 differ."""
    return [line_style(number, number + number // len(COLOURS)) for number in range(count)]


def round_range(values: Sequence[float]) -> Range:
    """Return a range around finite `values` that five equal steps of a round length, at least 0.01, fill."""
    low, high = min(values), max(values)
    steps = (digit * 10.0**power for power in count(-2) for digit in (1, 2, 5))
    for step in steps:
        start = floor(low / step + ROUNDING) * step
        if start + STEPS * step >= high - ROUNDING:
            break
    return start, start + STEPS * step


def line_chart(series: Series, xs: Sequence[float], x_title: str, y_title: str, **more: Any) -> str:
    """Draw curves.

    Parameters
    ----------
    series : sequence of (name, values)
        One curve each, with a value for each of `xs`.
    xs : sequence of float
    x_title, y_title : str
        Axis labels.
    **more
        Styles, ranges and `whole_numbers` of `LinePanel`.
    """
    return line_charts([LinePanel(series, xs, x_title, y_title, **more)], f"{y_title} over {x_title}")


def line_charts(panels: Sequence[LinePanel], title: str) -> str:
    """Draw `panels` one below the other as one chart with this accessible title."""
    with svg_figure(380 * len(panels), title, len(panels)) as chart:
        for axes, panel in zip(chart.axes, panels, strict=True):
            styles = panel.styles or line_styles(len(panel.series))
            curves: list[Any] = []
            for (name, ys), (colour, dash) in zip(panel.series, styles, strict=True):
                curves += axes.plot(panel.xs, ys, color=colour, linestyle=dash)
                chart.mark(curves[-1], "curve", name)
            axes.set(xlabel=panel.x_title, ylabel=panel.y_title, xlim=panel.x_range, ylim=panel.y_range)
            if panel.whole_numbers:
                axes.set_xticks(whole_ticks(panel.x_range))
            else:
                _set_ticks(axes.set_xticks, panel.x_range)
            _set_ticks(axes.set_yticks, panel.y_range)
            _legend(axes, curves, [name for name, _ in panel.series])
        return chart.svg()


def bar_chart(rows: Sequence[tuple[str, str, Sequence[float]]], names: Sequence[str], title: str) -> str:
    """Draw groups of horizontal bars from 0 to 1.

    Parameters
    ----------
    rows : sequence of (name, note, values)
        A group each; the note is printed at the right.
    names : sequence of str
        Legend, one for each value of a row.
    title : str
        Accessible title.
    """
    thickness = 9 if len(names) < 4 else 6
    with svg_figure(70 + len(rows) * (len(names) * thickness + 12), title) as chart:
        (axes,) = chart.axes
        pitch = len(names) * thickness + 12
        middles = np.arange(len(rows)) * pitch
        groups = []
        for number, name in enumerate(names):
            offset = (number - (len(names) - 1) / 2) * thickness
            values = [row[2][number] for row in rows]
            bars = axes.barh(middles + offset, values, thickness - 1, color=COLOURS[number % 8])
            groups.append(bars)
            for bar, row, value in zip(bars, rows, values, strict=True):
                chart.mark(bar, "bar", f"{row[0]}, {name}: {value:.3f}")
        axes.set(xlim=(0, 1), ylim=(max(len(rows), 1) * pitch - pitch / 2, -pitch / 2))
        _set_ticks(axes.set_xticks, (0.0, 1.0))
        axes.set_yticks(middles, [_shorten(row[0]) for row in rows], color=INK)
        axes.grid(visible=False, axis="y")
        for label, middle, row in zip(axes.get_yticklabels(), middles, rows, strict=True):
            chart.mark(label, "name", row[0])
            axes.annotate(row[1], (1, middle), xycoords=axes.get_yaxis_transform(), xytext=(8, 0),
                          textcoords="offset points", va="center", color=SOFT)  # fmt: skip
        _legend(axes, groups, names)
        return chart.svg()


def scatter_chart(
    points: Sequence[tuple[float, float, int | None, str]], names: Sequence[str], title: str
) -> str:
    """Draw dots without axes.

    Parameters
    ----------
    points : sequence of (x, y, colour, tooltip)
        x and y from 0 to 1; colour is an index into `names`, None for grey.
    names : sequence of str
        Legend of the colours.
    title : str
        Accessible title.
    """
    with svg_figure(WIDTH, title) as chart:
        (axes,) = chart.axes
        dots = [axes.scatter([], [], s=36, color=COLOURS[number % 8]) for number in range(len(names))]
        for x, y, colour, tooltip in points:
            dot = axes.scatter(x, y, s=36, color=RULE if colour is None else COLOURS[colour % 8], alpha=0.75)
            chart.mark(dot, "dot", tooltip)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        axes.set_axis_off()
        _legend(axes, dots, names)
        return chart.svg()


def box_chart(
    samples: Sequence[tuple[str, NDArray[np.float64]]], y_range: Range, y_title: str, title: str
) -> str:
    """Draw box-and-whisker plots: median, quartiles, furthest values within 1.5 interquartile ranges, outliers.

    Parameters
    ----------
    samples : sequence of (name, values)
        A box each; values are (n,), and no box is drawn for none.
    y_range : (float, float)
        Limits of the axis.
    y_title : str
        Axis label.
    title : str
        Accessible title.
    """
    with svg_figure(400, title) as chart:
        (axes,) = chart.axes
        for number, (name, values) in enumerate(samples):
            if not len(values):
                continue
            fill = COLOURS[number % 8]
            colour = {"color": fill}
            outlier = {"marker": "o", "markersize": 4, "markerfacecolor": fill, "markeredgewidth": 0}
            parts = axes.boxplot(
                values, positions=[number], widths=0.3, showcaps=False, flierprops=outlier, boxprops=colour,
                medianprops=colour, whiskerprops=colour,
            )  # fmt: skip
            chart.mark(parts["boxes"][0], "box", f"{name}: median {float(np.median(values)):.4f}")
            chart.mark(parts["fliers"][0], "outliers", f"{name}: outliers")
        axes.set(xlim=(-0.5, len(samples) - 0.5), ylim=y_range, ylabel=y_title)
        axes.set_xticks(range(len(samples)), [name for name, _ in samples], color=INK)
        axes.grid(visible=False, axis="x")
        return chart.svg()


def whole_ticks(limits: Range) -> list[int]:
    """Return whole numbers of a range at equal distances, six at most."""
    first, last = round(limits[0]), round(limits[1])
    return list(range(first, last + 1, max(1, ceil((last - first) / STEPS))))


def _set_ticks(set_ticks: Any, limits: Range) -> None:
    """Set ticks at five equal steps, with as many digits as they need, up to 2."""
    ticks = np.linspace(*limits, STEPS + 1)
    digits = next((number for number in (0, 1) if np.allclose(ticks, ticks.round(number), atol=ROUNDING)), 2)
    set_ticks(ticks, [f"{tick:.{digits}f}" for tick in ticks.tolist()])


def _legend(axes: "Axes", marks: Sequence[Any], names: Sequence[str]) -> None:
    """Put the names of `marks` above the axes, in as many columns as fit, also names that begin with _."""
    if names:
        columns = max(1, min(len(names), int(WIDTH // (60 + max(map(len, names)) * LETTER))))
        axes.legend(marks, names, loc="lower left", bbox_to_anchor=(0, 1.01), ncols=columns, borderaxespad=0)


def _shorten(name: str) -> str:
    """Cut the middle out of a long name: its end says more."""
    half = LONGEST // 2
    return name if len(name) <= LONGEST else f"{name[: half - 1]}…{name[-half:]}"
