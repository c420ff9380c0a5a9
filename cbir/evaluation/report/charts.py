"""Charts of the reports: deterministic SVG by matplotlib, in the colours of the report's style sheet.

Text stays text, colours are CSS variables so that a page can be light or dark, and marks carry their values as
tooltips. matplotlib is imported on first use.
"""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import count
from math import ceil, floor
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.system.remedies import install_command

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 760  # pixels

# Stand-ins for the variables --c0 to --c7, --ink, --soft and --rule of the style sheet.
COLOURS = ("#2b66b1", "#c8502b", "#2b8a57", "#8a5bb0", "#a77a06", "#0c8892", "#b03a7d", "#6b7177")

INK, SOFT, RULE = "#1d2226", "#5d666d", "#d9d6cd"

VARIABLES = {colour: f"--c{number}" for number, colour in enumerate(COLOURS)} | {
    INK: "--ink", SOFT: "--soft", RULE: "--rule",
}  # fmt: skip

RC: dict[Any, Any] = {
    "svg.fonttype": "none", "text.parse_math": False,  # labels may have dollar signs
    "font.family": "sans-serif", "font.size": 12, "axes.labelsize": 13,
    "text.color": INK, "axes.labelcolor": SOFT, "xtick.labelcolor": SOFT, "ytick.labelcolor": SOFT,
    "xtick.major.size": 0, "ytick.major.size": 0, "xtick.major.pad": 7, "ytick.major.pad": 7,
    "axes.spines.left": False, "axes.spines.right": False,
    "axes.spines.top": False, "axes.spines.bottom": False, "axes.grid": True, "grid.color": RULE,
    "axes.axisbelow": True, "lines.linewidth": 2.2, "legend.frameon": False, "legend.fontsize": 12,
}  # fmt: skip

COLOUR = re.compile("#[0-9a-f]{6}")

NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"


def require_matplotlib() -> None:
    """Raise InvalidInput with the install command if matplotlib is missing; call it before long work."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InvalidInput(f"charts need matplotlib: {install_command('evaluate')}") from error


@contextmanager
def svg_figure(height: int, title: str, rows: int = 1) -> Iterator["SvgFigure"]:
    """Create a figure to draw on and to render inside of this context.

    Parameters
    ----------
    height : int
        Pixels.
    title : str
        Accessible title.
    rows : int
        Number of axes, one below the other.

    Raises
    ------
    InvalidInput
        If matplotlib is missing.
    """
    require_matplotlib()
    import matplotlib

    with matplotlib.rc_context(RC | {"svg.hashsalt": title}):
        yield SvgFigure(height, title, rows)


class SvgFigure:
    """A figure with `axes`; its marks get a class and a tooltip."""

    def __init__(self, height: int, title: str, rows: int) -> None:
        from matplotlib.figure import Figure

        self.title = title
        self._figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72, layout="constrained")
        self.axes: list[Axes] = list(self._figure.subplots(rows, 1, squeeze=False)[:, 0])
        self._tooltips: dict[str, tuple[str, str]] = {}

    def mark(self, artist: Any, kind: str, tooltip: str) -> None:
        """Set the class and the tooltip of an artist.

        Parameters
        ----------
        artist : matplotlib.artist.Artist
        kind : str
            Class of its SVG element.
        tooltip : str
            Text of the element's title.
        """
        gid = f"{kind}-{len(self._tooltips)}"
        artist.set_gid(gid)
        self._tooltips[gid] = kind, tooltip

    def svg(self) -> str:
        """Render the figure as an SVG element to embed in a page."""
        file = io.StringIO()
        self._figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        text = NOT_XML.sub("", file.getvalue())
        ElementTree.register_namespace("", SVG[1:-1])
        root = ElementTree.fromstring(text)
        root.remove(root[0])  # metadata: program and version
        used = set(re.findall(r"#(\w+)", text))
        for element in root.iter():
            for name, value in element.items():
                element.set(name, COLOUR.sub(_variable, value))
            gid = element.attrib.pop("id", "")
            if gid in self._tooltips:
                kind, tooltip = self._tooltips[gid]
                element.set("class", kind)
                caption = ElementTree.Element(f"{SVG}title")
                caption.text = NOT_XML.sub("", tooltip)
                element.insert(0, caption)
            elif gid in used:
                element.set("id", gid)
            if f"{XLINK}href" in element.attrib:
                element.set("href", element.attrib.pop(f"{XLINK}href"))
        for name in ("width", "height", "version"):
            root.attrib.pop(name, None)
        root.attrib |= {"class": "chart", "role": "img", "aria-label": self.title}
        return ElementTree.tostring(root, encoding="unicode")


def _variable(match: re.Match[str]) -> str:
    name = VARIABLES.get(match[0])
    return f"var({name})" if name else match[0]


def style_sheet() -> str:
    """Return the CSS of reports and of charts that stand alone."""
    return (files("cbir.evaluation.report") / "style.css").read_text(encoding="utf-8")


def standalone_svg(chart: str) -> str:
    """Return `chart` as a file of its own, with its style inside: light or dark as the reader's system is."""
    head, body = chart.split(">", 1)
    width, height = head.split('viewBox="0 0 ')[1].split('"')[0].split()
    paper = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    return f'{head} width="{width}" height="{height}"><style>{style_sheet()}</style>{paper}{body}\n'


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
