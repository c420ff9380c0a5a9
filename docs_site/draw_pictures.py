"""Draw the pictures of documents that are no screenshots: `python -m docs_site.draw_pictures`."""

from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from docs_site.source_pages import ROOT

FONT = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif"
LINE = "#7c8591"
BLUE, GREEN, AMBER, RED, GREY = "#cfe0fb", "#cdebd3", "#fbe6bd", "#f7d0cd", "#e3e6ea"
INK = "#1c2530"
FOLDER = ROOT / "docs" / "pictures"
NEIGHBOURS, STEPS, DAMPING = 4, 60, 0.95
NEAREST = 26  # images of the query's kind, and answers that are shown


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


def draw_path() -> Drawing:
    """Draw the path of an image into the collection, and that of a query through it."""
    picture = Drawing(900, 360, "From a file to a vector in the collection, and from a query to hits")
    top = [
        (["source", "folder, archive,", "DICOM, HTTP"], GREY),
        (["decode", "in a process of", "its own, limited"], BLUE),
        (["descriptor", "image to vector:", "network or formula"], BLUE),
        (["vector", "projected, scaled:", "128 numbers"], BLUE),
        (["collection", "records, vectors,", "labels; on disk"], GREEN),
    ]
    bottom = [
        (["query", "image, id, region,", "several examples"], GREY),
        (["decode, describe", "the same code", "as above"], BLUE),
        (["ranking list", "by FAISS, of what", "passes the filter"], AMBER),
        (["re-rank", "the list as a whole,", "judgements"], AMBER),
        (["hits", "page, JSON, csv,", "DICOM, TREC run"], GREY),
    ]
    for row, boxes in ((30, top), (240, bottom)):
        for number, (lines, fill) in enumerate(boxes):
            x = 10 + 180 * number
            picture.box(x, row, 150, 90, lines, fill)
            if number:
                picture.arrow((x - 30, row + 45), (x, row + 45))
    picture.arrow((805, 120), (805, 180), (445, 180), (445, 240))
    picture.arrow((625, 180), (625, 240))
    picture.box(455, 160, 160, 40, ["index: k-NN graph"], GREEN)
    return picture


def draw_engine() -> Drawing:
    """Draw the ways in which the nearest images are found, and the one in which they are re-ranked."""
    picture = Drawing(900, 370, "Four ways to the nearest images, and one to re-rank them")
    picture.box(10, 145, 110, 80, ["query", "vector, filters"], GREY)
    for row, lines, fill in (
        (10, ["up to 20,000 images", "FAISS compares all", "on the CPU"], AMBER),
        (100, ["flat", "FAISS over the snapshot", "on the CPU"], BLUE),
        (190, ["flat, with a GPU", "FAISS over a copy", "on the GPU"], BLUE),
        (280, ["vector index", "ivf, hnsw: FAISS;", "pgvector, Milvus: servers"], BLUE),
    ):
        picture.box(175, row, 190, 76, lines, fill)
        picture.arrow((120, 185), (147, 185), (147, row + 38), (175, row + 38))
        if row > 10:
            picture.arrow((365, row + 38), (392, row + 38), (392, 138), (430, 138))
    for row, lines in (
        (100, ["head", "the nearest images,", "distances exact"]),
        (190, ["sample", "of the others"]),
        (280, ["graph", "of neighbours: what", "relevance reaches"]),
    ):
        picture.box(430, row, 170, 76, lines, GREEN)
        picture.arrow((600, row + 38), (628, row + 38), (628, 185), (655, 185))
    picture.arrow((365, 48), (710, 48), (710, 145))
    picture.box(655, 145, 110, 80, ["re-rank", "NumPy,", "on the CPU"], AMBER)
    picture.arrow((765, 185), (795, 185))
    picture.box(795, 145, 95, 80, ["hits"], GREY)
    return picture


def draw_cluster() -> Drawing:
    """Draw what runs where in a cluster."""
    picture = Drawing(
        900, 380, "Parts of a cluster: proxy, services, worker, PostgreSQL, Milvus, files and archive"
    )
    picture.box(10, 145, 140, 90, ["clients", "page, API,", "DICOMweb"], GREY)
    picture.box(190, 145, 140, 90, ["proxy", "TLS, load", "balancing"], GREY)
    picture.box(390, 20, 170, 90, ["service", "cbir serve", "searches, adds"], BLUE)
    picture.box(390, 145, 170, 90, ["service", "cbir serve", "the same"], BLUE)
    picture.box(390, 270, 170, 90, ["worker", "cbir admin worker", "runs jobs"], AMBER)
    picture.box(
        690, 10, 200, 100, ["PostgreSQL", "records, vectors, state,", "tokens, jobs, audit log"], GREEN
    )
    picture.box(
        690, 140, 200, 100, ["Milvus or pgvector", "graph of neighbours,", "made from PostgreSQL"], GREEN
    )
    picture.box(690, 270, 200, 90, ["shared files", "keys, originals,", "snapshots"], GREEN)
    picture.arrow((150, 190), (190, 190))
    picture.arrow((330, 180), (360, 180), (360, 65), (390, 65))
    picture.arrow((330, 200), (360, 200), (360, 190), (390, 190))
    for row in (65, 190, 315):
        picture.arrow((560, row), (625, row), (625, 60), (690, 60))
        picture.arrow((560, row), (625, row), (625, 190), (690, 190))
        picture.arrow((560, row), (625, row), (625, 315), (690, 315))
    return picture


def draw_federation() -> Drawing:
    """Draw a search at three hospitals: what leaves each."""
    picture = Drawing(
        900, 380, "A search at three hospitals: a vector leaves one, distances leave the others"
    )
    picture.box(10, 145, 140, 90, ["query", "image; stays", "in the hospital"], GREY)
    picture.box(200, 130, 180, 120, ["south", "describes, searches,", "compares, checks,", "merges"], BLUE)
    picture.box(680, 20, 210, 100, ["north", "searches its own images;", "token, limits, audit log"], GREEN)
    picture.box(680, 260, 210, 100, ["east", "searches its own images;", "token, limits, audit log"], GREEN)
    picture.box(430, 20, 160, 60, ["1 profiles", "must agree"], AMBER)
    picture.box(430, 130, 160, 50, ["2 vector"], AMBER)
    picture.box(430, 230, 160, 70, ["3 distances, counts;", "labels, thumbnails", "where allowed"], AMBER)
    picture.arrow((150, 190), (200, 190))
    picture.arrow((380, 155), (430, 155))
    picture.arrow((590, 155), (635, 155), (635, 70), (680, 70))
    picture.arrow((635, 155), (635, 310), (680, 310))
    picture.arrow((680, 285), (650, 285), (650, 265), (590, 265))
    picture.arrow((680, 95), (650, 95), (650, 265), (590, 265))
    picture.arrow((430, 265), (405, 265), (405, 225), (380, 225))
    return picture


def draw_integrations() -> Drawing:
    """Draw what other programs of research groups send and get."""
    picture = Drawing(900, 400, "XNAT, 3D Slicer, FiftyOne and Label Studio: what each sends and gets")
    picture.box(340, 110, 220, 180, ["cbir", "collection: vectors,", "labels, patient keys"], GREEN)
    picture.box(10, 30, 150, 90, ["XNAT", "projects of", "images"], GREY)
    picture.box(10, 280, 150, 90, ["3D Slicer, OHIF", "plugins of", "MONAI Label"], GREY)
    picture.box(740, 30, 150, 90, ["FiftyOne", "shows, filters,", "corrects"], GREY)
    picture.box(740, 280, 150, 90, ["Label Studio", "asks people"], GREY)
    picture.box(180, 45, 130, 60, ["images", "by REST, read only"], BLUE)
    picture.box(180, 260, 130, 50, ["next image"], AMBER)
    picture.box(180, 340, 130, 50, ["segmentation"], AMBER)
    picture.box(590, 10, 130, 60, ["folder", "pictures, vectors"], BLUE)
    picture.box(590, 90, 130, 60, ["folder", "labels, pictures"], BLUE)
    picture.box(590, 260, 130, 50, ["pairs of images"], AMBER)
    picture.box(590, 340, 130, 50, ["judgements"], AMBER)
    picture.arrow((160, 75), (180, 75))
    picture.arrow((310, 75), (390, 75), (390, 110))
    picture.arrow((340, 270), (325, 270), (325, 285), (310, 285))
    picture.arrow((180, 285), (160, 305))
    picture.arrow((160, 345), (180, 365))
    picture.arrow((310, 365), (390, 365), (390, 290))
    picture.arrow((510, 110), (510, 40), (590, 40))
    picture.arrow((720, 40), (740, 60))
    picture.arrow((740, 95), (720, 120))
    picture.arrow((590, 120), (575, 120), (575, 160), (560, 160))
    picture.arrow((560, 270), (575, 270), (575, 285), (590, 285))
    picture.arrow((720, 285), (740, 305))
    picture.arrow((740, 345), (720, 365))
    picture.arrow((590, 365), (510, 365), (510, 290))
    return picture


def draw_eprf() -> Drawing:
    """Draw the steps of EPRF."""
    picture = Drawing(900, 330, "Steps of re-ranking by enhanced pseudo-relevance feedback")
    picture.box(10, 110, 150, 90, ["ranking list", "by distance", "to the query"], GREY)
    picture.box(
        200, 110, 150, 90, ["1 update", "similarity + correlation", "of the lists of the top K"], BLUE
    )
    picture.box(390, 20, 150, 90, ["2 positives", "the top P", "images"], GREEN)
    picture.box(390, 200, 150, 90, ["2 negatives", "P images drawn from", "the end, several times"], RED)
    picture.box(580, 20, 150, 90, ["3 relevance R", "T1 SVMs and the", "correlation estimate it"], AMBER)
    picture.box(580, 200, 150, 90, ["4 fuzzy SVMs", "T2 of them; positives", "weigh as much as R"], AMBER)
    picture.box(760, 110, 130, 90, ["new scores", "mean of the SVMs,", "for all images"], GREY)
    picture.arrow((160, 155), (200, 155))
    picture.arrow((350, 145), (370, 145), (370, 65), (390, 65))
    picture.arrow((350, 165), (370, 165), (370, 245), (390, 245))
    picture.arrow((540, 65), (580, 65))
    picture.arrow((540, 245), (580, 245))
    picture.arrow((465, 200), (465, 155), (610, 155), (610, 110))
    picture.arrow((670, 110), (670, 200))
    picture.arrow((730, 245), (825, 245), (825, 200))
    return picture


def two_arcs() -> NDArray[np.float64]:
    """Return two interleaved arcs of points (2 n, 2), as two kinds of images; the first point is the query."""
    random = np.random.default_rng(1)
    angle = np.linspace(0, np.pi, NEAREST + 1)
    upper = np.column_stack([np.cos(angle), np.sin(angle)])
    lower = np.column_stack([1 - np.cos(angle), 0.45 - np.sin(angle)])
    return np.vstack([upper, lower]) + random.normal(0, 0.045, (2 * len(angle), 2))


def graph(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the normalised weights (n, n) of the edges between nearest neighbours."""
    squares = ((points[:, None] - points) ** 2).sum(2)
    near = np.argsort(squares, 1)[:, 1 : NEIGHBOURS + 1]
    weights = np.zeros_like(squares)
    rows = np.arange(len(points))[:, None]
    weights[rows, near] = np.exp(-squares[rows, near] / np.median(squares[rows, near]))
    weights = (weights + weights.T) / 2
    root = np.sqrt(weights.sum(1))
    return np.asarray(weights / root / root[:, None])


def diffuse(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what arrives at each point (n,) from the first: f <- a S f + (1 - a) y (Zhou et al. 2003)."""
    source = np.zeros(len(edges))
    source[0] = 1
    flow = source
    for _ in range(STEPS):
        flow = DAMPING * edges @ flow + (1 - DAMPING) * source
    return flow


def draw_diffusion() -> Drawing:
    """Draw the nearest images of a query, by distance and by diffusion through the graph."""
    picture = Drawing(900, 350, "The first answers by distance, and by diffusion through the neighbour graph")
    points = two_arcs()
    edges = graph(points)
    nearness = -((points - points[0]) ** 2).sum(1)
    for left, scores, title in (
        (10, nearness, ["by distance", "the nearest images, of both kinds"]),
        (460, diffuse(edges), ["by diffusion", "images that are reached along the graph"]),
    ):
        x, y = left + 110 + 105 * (points[:, 0] + 0.1), 170 - 105 * (points[:, 1] - 0.45) * 0.95
        for first, second in np.argwhere(np.triu(edges) > 0):
            picture.line(x[first], y[first], x[second], y[second])
        best = set(np.argsort(-scores, kind="stable")[: NEAREST + 1].tolist())
        for number in range(1, len(points)):
            picture.dot(x[number], y[number], 6, "#2f6fd6" if number in best else GREY)
        picture.dot(x[0], y[0], 10, "#e0942b")
        picture.box(left + 40, 298, 350, 46, title, BLUE)
    picture.box(10, 10, 120, 30, ["query: orange"], AMBER)
    picture.box(140, 10, 120, 30, ["answers: blue"], BLUE)
    return picture


PICTURES = {
    "path.svg": draw_path,
    "engine.svg": draw_engine,
    "cluster.svg": draw_cluster,
    "federation.svg": draw_federation,
    "integrations.svg": draw_integrations,
    "eprf.svg": draw_eprf,
    "diffusion.svg": draw_diffusion,
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw().svg(), encoding="utf-8")
