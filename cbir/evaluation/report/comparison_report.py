"""HTML report of two compared collections: what they differ in, and the first images of both for some queries."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from cbir.errors import NotFound
from cbir.evaluation.collection_comparison import ComparedQuery, Comparison
from cbir.evaluation.report.report_parts import ReportPictures, render_page, render_table
from cbir.store import Collection
from cbir.store.records import originals
from cbir.system.files import atomic_text

DELETED = "deleted meanwhile"


def write_comparison_report(
    path: Path, comparison: Comparison, collection: Collection, facts: Mapping[str, Any], max_pixels: int
) -> None:
    """Write the report to `path`, which only its owner can read.

    Parameters
    ----------
    path : Path
    comparison : Comparison
    collection : Collection
        One of the two, whose files the pictures are read from.
    facts : mapping
        What `cbir collection compare` prints as JSON.
    max_pixels : int
        Pixels of the largest picture.
    """
    pictures = _Pictures(collection, ReportPictures(max_pixels))
    queries = "".join(_query(query, pictures, facts) for query in comparison.most_different())
    sides = "".join(
        f"<dt>{side}</dt><dd>{escape(facts[side]['profile'])}: {escape(Path(facts[side]['folder']).name)}, "
        f"{facts[side]['images']} images, {facts[side]['milliseconds']:.1f} ms a query</dd>"
        for side in ("a", "b")
    )
    overlap = ", ".join(f"{name} {value:.2f}" for name, value in facts["overlap"].items())
    correlation = facts["rank_correlation"]
    skipped = (
        f"; {facts['skipped']} skipped, as their images were deleted meanwhile" if facts["skipped"] else ""
    )
    subtitle = f"""{facts["queries"]} queries among {facts["images_in_both"]} images that both have{skipped}. Not a
medical device."""
    body = f"""<dl>{sides}<dt>re-ranking</dt><dd>{escape(facts["rerank"])}</dd>
<dt>overlap of the first {facts["k"]}</dt><dd>{overlap}</dd>
<dt>rank correlation of the shared</dt><dd>{"none" if correlation is None else f"{correlation:.2f}"}</dd></dl>
{_table(facts["labels"])}
<h2>Queries that differ most</h2>
<p class="note">Green: among the first {facts["k"]} of both. The pictures are from the collection: protect this
file as you protect them.</p>{queries}"""
    page = render_page("Two collections of the same images", subtitle, body, "")
    with atomic_text(path) as file:
        file.write(page)


class _Pictures:
    """Pictures of images by id."""

    def __init__(self, collection: Collection, pictures: ReportPictures) -> None:
        self._collection, self._pictures = collection, pictures

    def html(self, image_id: str) -> str:
        try:
            record = self._collection.record(image_id)
        except NotFound:
            return f'<span class="none">{DELETED}</span>'
        source = originals.original_path(self._collection.folder, record.source) or record.source
        return self._pictures.html(str(source), record.frame, record.content_hash, record.burned_in)


def _query(query: ComparedQuery, pictures: _Pictures, facts: Mapping[str, Any]) -> str:
    shared = set(query.a) & set(query.b)
    films = []
    for side, answers in (("a", query.a), ("b", query.b)):
        caption = f"<figcaption>{side}: {escape(facts[side]['profile'])}</figcaption>"
        figures = [f'<figure class="asked">{pictures.html(query.image_id)}{caption}</figure>']
        figures += [
            f'<figure class="{"hit" if image_id in shared else "miss"}">{pictures.html(image_id)}</figure>'
            for image_id in answers
        ]
        films.append(f'<div class="film">{"".join(figures)}</div>')
    return (
        f'<div class="query"><p><b>overlap {query.overlap:.2f}</b> <code>{escape(query.image_id)}</code></p>'
        f"{''.join(films)}</div>"
    )


def _table(labels: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            escape(label["label"]), f"{label['queries']}", metric["name"], f"{metric['a']:.3f}",
            f"{metric['b']:.3f}", f"{metric['low']:+z.3f} to {metric['high']:+z.3f}", f"{metric['p']:.4f}",
        )
        for label in labels
        for metric in label["metrics"]
    ]  # fmt: skip
    heads = ("label", "queries", "metric", "a", "b", "b - a (95 %)", "p")
    return f"<h2>Quality</h2>{render_table(heads, rows)}" if rows else ""
