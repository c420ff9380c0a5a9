"""Parts of HTML reports: the page, tables, facts, curves of a training, maps of images, and their pictures."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

import cbir
from cbir.errors import UnreadableImage
from cbir.evaluation.report.charts import line_chart, round_range, style_sheet
from cbir.images import Limits
from cbir.ingest.object_store import read_images_at
from cbir.search import select_frame

SIDE = 128  # pixels of the longer side
JPEG_QUALITY = 80
BURNED_IN = "not shown: text may be burned in"
MISSING = "its file is missing or has changed"


class ReportPictures:
    """Thumbnails as HTML, each rendered once."""

    def __init__(self, max_pixels: int) -> None:
        self.limits = Limits(pixels=max_pixels)
        self._cache: dict[str, str] = {}

    def html(self, source: str, frame: int | None, content: str, burned_in: bool) -> str:
        """Return an `img`, or a text that says why there is none.

        Parameters
        ----------
        source : str
            Path of the file, or address of the object.
        frame : int or None
        content : str
            Hash of the picture; a file with another picture is not shown.
        burned_in : bool
            DICOM says that the picture holds text; it is not shown.
        """
        if burned_in:
            return f'<span class="none">{BURNED_IN}</span>'
        if content not in self._cache:
            self._cache[content] = self._render(source, frame, content)
        return self._cache[content]

    def _render(self, source: str, frame: int | None, content: str) -> str:
        try:
            image = select_frame(read_images_at(source, self.limits), frame, Path(source).name)
        except (UnreadableImage, OSError):
            return f'<span class="none">{MISSING}</span>'
        if image.content_hash != content:
            return f'<span class="none">{MISSING}</span>'
        height, width = image.pixels.shape[:2]
        scale = min(1.0, SIDE / max(height, width))
        size = max(1, round(width * scale)), max(1, round(height * scale))
        small = cv2.resize(image.pixels, size, interpolation=cv2.INTER_AREA)
        if small.ndim == 3:
            small = cv2.cvtColor(small, cv2.COLOR_RGB2BGR)
        _, file = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
        return f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(file.tobytes()).decode()}">'


def render_page(title: str, subtitle: str, body: str, note: str, style: str = "") -> str:
    """Return a report as one HTML file.

    Parameters
    ----------
    title : str
        Text of title and heading.
    subtitle, body, note : str
        HTML below the heading, of the report itself, and of its end, beside the version of cbir.
    style : str
        CSS beside the style sheet of all reports.
    """
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{style_sheet()}{style}</style></head><body>
<h1>{escape(title)}</h1>
<p class="sub">{subtitle}</p>
{body}
<p class="note">{" ".join((f"cbir {cbir.__version__}.", note)).rstrip()}</p>
</body></html>
"""


def render_table(heads: Iterable[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table of cells of HTML, the first of each row as its head; without `heads` it has none."""
    head = "".join(f"<th>{cell}</th>" for cell in heads)
    head = head and f"<thead><tr>{head}</tr></thead>"
    cells = ((first, "".join(f"<td>{cell}</td>" for cell in others)) for first, *others in rows)
    body = "".join(f"<tr><th>{first}</th>{others}</tr>" for first, others in cells)
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def render_facts(facts: Mapping[str, Any]) -> str:
    """Return names and values as the items of a list of definitions."""
    return "".join(
        f"<dt>{escape(key.replace('_', ' '))}</dt><dd>{escape(_fact_text(value))}</dd>"
        for key, value in facts.items()
    )


def _fact_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_fact_text(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_fact_text, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def training_charts(history: Sequence[Mapping[str, float]], measures: Mapping[str, str]) -> str:
    """Draw `measures` in validation, by their keys in `history`, and the loss of training by epoch."""
    if len(history) < 2:
        return "<p>One epoch.</p>"
    epochs = [float(number) for number in range(1, len(history) + 1)]
    curves = [(name, [row[key] for row in history]) for key, name in measures.items()]
    losses, axis = [row["loss"] for row in history], {"x_range": (1.0, epochs[-1]), "whole_numbers": True}
    scores = line_chart(curves, epochs, "epoch", "validation", **axis)
    heights = round_range(losses)
    return scores + line_chart(
        [("loss", losses)], epochs, "epoch", "loss of training", y_range=heights, **axis
    )


def map_positions(values: NDArray[np.floating], seed: int = 0) -> list[tuple[float, float]]:
    """Return positions from 0 to 1 of `values` (n, d), n at least 5, in two dimensions by t-SNE."""
    from sklearn.manifold import TSNE

    layout = TSNE(perplexity=min(30.0, (len(values) - 1) / 3), random_state=seed)
    positions = layout.fit_transform(values)
    low, high = positions.min(axis=0), positions.max(axis=0)
    return [(float(x), float(y)) for x, y in (positions - low) / np.maximum(high - low, 1e-12)]
