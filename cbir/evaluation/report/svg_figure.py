"""Deterministic SVG figures by matplotlib, in the colours of the report's style sheet.

Text stays text, colours are CSS variables so that a page can be light or dark, and marks carry their values as
tooltips. matplotlib is imported on first use.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from cbir.errors import InvalidInput
from cbir.system.extras import install_command

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
