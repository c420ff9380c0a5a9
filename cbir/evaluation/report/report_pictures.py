"""Pictures of a report: thumbnails as data URIs, and the best and worst queries of a run with their first answers."""

import base64
from html import escape
from pathlib import Path

import cv2
import numpy as np

from cbir.errors import UnreadableImage
from cbir.evaluation.experiment import EvalResult
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


QUERIES = 5  # best and worst each

ANSWERS = 8


def render_examples(result: EvalResult, number: int, pictures: ReportPictures) -> str:
    """Render a run's best and worst queries by the first metric, of different classes if possible.

    Parameters
    ----------
    result : EvalResult
    number : int
        Index of the run.
    pictures : ReportPictures
    """
    metric = result.plan.metrics[0]
    values = result.values[number, 0]
    falling = -values if not metric.lower_is_better else values
    # Equal values: the query with more relevant images says more.
    relevant = -result.qrels.relevant
    best, worst = (np.lexsort((relevant, order)).tolist() for order in (falling, -falling))
    parts = []
    for title, order in (("Best", best), ("Worst", worst)):
        parts.append(f"<h3>{title} queries by {escape(metric.name)}</h3>")
        parts += [_render_query(result, number, q, pictures) for q in _diverse(result, order)]
    return "".join(parts)


def _diverse(result: EvalResult, order: list[int]) -> list[int]:
    """Return the first queries of `order`, one of each class before others."""
    classes = result.qrels.query_classes
    _, first = np.unique(classes[order], return_index=True)
    later = np.ones(len(order), bool)
    later[first] = False
    return [order[index] for index in np.argsort(later, kind="stable")[:QUERIES]]


def _render_query(result: EvalResult, number: int, q: int, pictures: ReportPictures) -> str:
    qrels = result.qrels
    query = qrels.queries[q]
    value = float(result.values[number, 0, q])
    title = qrels.titles[qrels.query_classes[q]]
    picture = pictures.html(query.source, query.frame, query.content, query.burned_in)
    figures = [f'<figure class="asked">{picture}<figcaption>query<br>{escape(title)}</figcaption></figure>']
    gains = dict(zip(qrels.positions[q].tolist(), qrels.gains[q].tolist(), strict=True))
    answers = result.runs[number].matrix.positions[q, :ANSWERS].tolist()
    figures += [_render_answer(result, a, gains.get(a, 0), pictures) for a in answers if a >= 0]
    return (
        f'<div class="query"><p><b>{result.plan.metrics[0].name} {value:.3f}</b> '
        f'<span class="sub">{escape(title)}, {qrels.relevant[q]} relevant, <code>{query.name}</code></span>'
        f'</p><div class="film">{"".join(figures)}</div></div>'
    )


def _render_answer(result: EvalResult, position: int, gain: int, pictures: ReportPictures) -> str:
    qrels, record = result.qrels, result.candidates.records[position]
    code = int(qrels.classes[position])
    title = qrels.titles[code] if code >= 0 else "unjudged"
    hit = gain >= qrels.level
    mark = "✓" if hit else "✗"
    if qrels.spread:
        mark += f" gain {gain}"
    picture = pictures.html(record.source, record.frame, record.content_hash, record.burned_in)
    kind = "hit" if hit else "miss"
    return f'<figure class="{kind}">{picture}<figcaption><b>{mark}</b> {escape(title)}</figcaption></figure>'
