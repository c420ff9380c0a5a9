"""Charts as SVG text. Colours are classes s0 to s7, dashes d0 to d3, which the style sheet has for light and dark."""

from collections.abc import Sequence
from html import escape
from math import floor

WIDTH = 760
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 12, 44
COLOURS, DASHES = 8, 4
LINE_HEIGHT = 20
LETTER = 7.6  # pixels a letter of a legend takes at most
ROUNDING = 1e-9
LONGEST = 36  # letters of a bar's name

Series = Sequence[tuple[str, Sequence[float]]]
Range = tuple[float, float]


def style(colour: int, dash: int) -> str:
    """The classes of a colour and a dash: dashes show curves that cover each other, and all in grey."""
    return f"s{colour % COLOURS} d{dash % DASHES}"


def styles(count: int) -> list[str]:
    """A style for each of so many series, up to 32 different ones."""
    return [style(number, number + number // COLOURS) for number in range(count)]


def lines(
    series: Series, xs: Sequence[float], x_title: str, y_title: str, drawn_as: Sequence[str] | None = None,
    x_range: Range = (0.0, 1.0), y_range: Range = (0.0, 1.0),
) -> str:  # fmt: skip
    """Curves over a square, of 0 to 1 where nothing else is said: each series has a value for each of `xs`.

    drawn_as: the style of each series. x_range, y_range: from where to where the axes go.
    """
    drawn_as, height = drawn_as or styles(len(series)), 400
    legend, top = _legend([name for name, _ in series], drawn_as)
    inner_width, inner_height = WIDTH - LEFT - RIGHT, height - top - BOTTOM

    def point(x: float, y: float) -> str:
        across, up = _share(x, x_range), _share(y, y_range)
        return f"{LEFT + across * inner_width:.1f},{top + (1 - up) * inner_height:.1f}"

    parts = [legend]
    for step in range(6):
        at = step / 5
        y = top + (1 - at) * inner_height
        x = LEFT + at * inner_width
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_tick(at, y_range)}</text>'
        )
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 24}" text-anchor="middle">{_tick(at, x_range)}</text>'
        )
    parts.append(f'<text class="axis" x="{LEFT + inner_width / 2}" y="{height - 5}" text-anchor="middle">'
                 f"{escape(x_title)}</text>")  # fmt: skip
    middle = top + inner_height / 2
    parts.append(f'<text class="axis" transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">'
                 f"{escape(y_title)}</text>")  # fmt: skip
    for (name, ys), look in zip(series, drawn_as, strict=True):
        points = " ".join(point(x, y) for x, y in zip(xs, ys, strict=True))
        parts.append(
            f'<polyline class="line {look}" points="{points}"><title>{escape(name)}</title></polyline>'
        )
    return _svg(parts, height, f"{y_title} over {x_title}")


def fitting(values: Sequence[float]) -> Range:
    """A range around values that five equal steps of a round length fill."""
    low, high = min(values), max(values)
    for step in (0.01, 0.02, 0.05, 0.1, 0.2):
        start = floor(low / step + ROUNDING) * step
        if start + 5 * step >= high - ROUNDING:
            return start, start + 5 * step
    return 0.0, 1.0


def stacked(charts: Sequence[str], title: str) -> str:
    """Charts of one size, one below the other, as one chart."""
    height = int(float(charts[0].split('viewBox="0 0 ')[1].split('"')[0].split()[1])) + LINE_HEIGHT
    placed = [
        chart.replace(
            "<svg ", f'<svg y="{number * height}" width="{WIDTH}" height="{height - LINE_HEIGHT}" ', 1
        )
        for number, chart in enumerate(charts)
    ]
    return _svg(placed, height * len(charts), title)


def points(found: Sequence[tuple[float, float, int | None, str]], names: Sequence[str], title: str) -> str:
    """Dots at x and y from 0 to 1: a colour for each of `names`, grey for None, and a title of their own each."""
    legend, top = _legend(names, [style(number, 0) for number in range(len(names))])
    size = WIDTH - LEFT - RIGHT
    dots = [
        f'<circle class="{"dot rest" if colour is None else f"dot s{colour % COLOURS}"}" r="3.5" '
        f'cx="{LEFT + x * size:.1f}" cy="{top + (1 - y) * size:.1f}"><title>{escape(said)}</title></circle>'
        for x, y, colour, said in found
    ]
    return _svg([legend, *dots], top + size + BOTTOM, title)


def _share(value: float, within: Range) -> float:
    return (value - within[0]) / (within[1] - within[0])


def _tick(share: float, within: Range) -> str:
    """What stands at a share of an axis, with as many digits as its steps need."""
    step = (within[1] - within[0]) / 5
    digits = 0 if step >= 1.0 else 1 if step >= 0.1 - ROUNDING else 2
    return f"{within[0] + 5 * share * step:.{digits}f}"


def bars(rows: Sequence[tuple[str, str, Sequence[float]]], names: Sequence[str], title: str) -> str:
    """Groups of bars from 0 to 1: for each row its name, a note, and a value for each of `names`."""
    looks = styles(len(names))
    legend, top = _legend(names, looks)
    thick = 9 if len(names) < 4 else 6
    row_height = len(names) * thick + 12
    longest = max((len(name) for name, _, _ in rows), default=0)
    left = 24 + int(min(longest, LONGEST) * LETTER)
    inner_width = WIDTH - left - 90
    height = top + len(rows) * row_height + 26
    parts = [legend]
    for step in range(6):
        x = left + step / 5 * inner_width
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - 22}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 6}" text-anchor="middle">{step / 5:.1f}</text>'
        )
    for place, (name, note, values) in enumerate(rows):
        y = top + place * row_height + 6
        middle = y + len(names) * thick / 2 + 4
        parts.append(
            f'<text class="label" x="{left - 10}" y="{middle:.1f}" text-anchor="end">'
            f"{escape(_fitting(name))}<title>{escape(name)}</title></text>"
        )
        parts.append(
            f'<text class="tick" x="{WIDTH - 4}" y="{middle:.1f}" text-anchor="end">{escape(note)}</text>'
        )
        for number, value in enumerate(values):
            parts.append(
                f'<rect class="bar {looks[number]}" x="{left}" y="{y + number * thick:.1f}" '
                f'width="{max(value * inner_width, 1):.1f}" height="{thick - 1}">'
                f"<title>{escape(f'{name}, {names[number]}: {value:.3f}')}</title></rect>"
            )
    return _svg(parts, height, title)


def _fitting(name: str) -> str:
    """A name that is not wider than there is room; its end tells more than its middle."""
    half = LONGEST // 2
    return name if len(name) <= LONGEST else f"{name[: half - 1]}…{name[-half:]}"


def _legend(names: Sequence[str], looks: Sequence[str]) -> tuple[str, int]:
    """The legend over a chart, and where the chart may begin."""
    x, y, parts = LEFT, TOP, []
    for name, look in zip(names, looks, strict=True):
        width = 44 + len(name) * LETTER
        if x + width > WIDTH and x > LEFT:
            x, y = LEFT, y + LINE_HEIGHT
        parts.append(f'<line class="line {look}" x1="{x:.0f}" x2="{x + 28:.0f}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="label" x="{x + 34:.0f}" y="{y + 4}">{escape(name)}</text>')
        x += int(width)
    return "".join(parts), y + LINE_HEIGHT


def _svg(parts: Sequence[str], height: int, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def alone(chart: str, style_sheet: str) -> str:
    """A chart with its style inside: a file of its own, light or dark as the reader's page is."""
    head, body = chart.split(">", 1)
    size = head.split('viewBox="0 0 ')[1].split('"')[0].split()
    paper = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    return f'{head} width="{size[0]}" height="{size[1]}"><style>{style_sheet}</style>{paper}{body}\n'
