"""SVG that is readable on light and dark pages: text stands on filled boxes, lines are of a middle grey."""

from xml.sax.saxutils import escape

FONT = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif"
LINE = "#7c8591"
BLUE, GREEN, AMBER, RED, GREY = "#cfe0fb", "#cdebd3", "#fbe6bd", "#f7d0cd", "#e3e6ea"
INK = "#1c2530"


class Drawing:
    """Shapes of a picture, in the order in which they are drawn."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.shapes: list[str] = []

    def text(self, x: float, y: float, text: str, size: int = 14, bold: bool = False) -> None:
        """Write a line of text, centred at x, y; it needs a box behind it."""
        weight = ' font-weight="600"' if bold else ""
        self.shapes.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}"{weight} fill="{INK}" text-anchor="middle" '
            f'dominant-baseline="central">{escape(text)}</text>'
        )

    def box(
        self, x: float, y: float, width: float, height: float, lines: list[str], fill: str = BLUE
    ) -> None:
        """Draw a box with its left upper corner at x, y; the first of its lines is bold, the others smaller."""
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}" stroke="{LINE}"/>'
        )
        first = y + height / 2 - 9 * (len(lines) - 1)
        for number, line in enumerate(lines):
            self.text(x + width / 2, first + 18 * number, line, 14 if number == 0 else 12, bold=number == 0)

    def arrow(self, *points: tuple[float, float]) -> None:
        """Draw an arrow along points."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.shapes.append(
            f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="2" marker-end="url(#tip)"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Draw a thin line."""
        self.shapes.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{LINE}" stroke-width="0.7"/>'
        )

    def dot(self, x: float, y: float, radius: float, fill: str) -> None:
        """Draw a filled circle."""
        self.shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}" stroke="{LINE}"/>'
        )

    def svg(self) -> str:
        """Return the picture as an SVG document."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" font-family="{FONT}" role="img">',
                f"<title>{escape(self.title)}</title>",
                '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
                f'orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" fill="{LINE}"/></marker></defs>',
                *self.shapes,
                "</svg>",
                "",
            ]
        )
