"""HTML of hits: cards, and a contact sheet with pictures of queries and hits, without scripts or other files."""

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from cbir.search.search_models import Hit

NO_PICTURE = "no picture: its file is missing or has changed, or text may be burned in"
PAGE_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 80rem; font: 15px/1.5 system-ui, -apple-system,
  "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1rem; margin: 0 0 .35rem; overflow-wrap: anywhere; }
.soft { opacity: .72; }
section { display: grid; grid-template-columns: 11rem minmax(0, 1fr); gap: 1rem 1.5rem; padding: 1.5rem 0;
  border-top: 1px solid #8884; }
section > header { position: sticky; top: 1rem; align-self: start; }
.query .cbir-hits { grid-template-columns: minmax(0, 11rem); }
@media (max-width: 40rem) { section { grid-template-columns: 1fr; } section > header { position: static; } }
@media print { section { break-inside: avoid; } }
"""


def card_style() -> str:
    """Return the CSS of the cards."""
    return files("cbir.search").joinpath("hits.css").read_text(encoding="utf-8")


def style_element() -> str:
    """Return the CSS of the cards as an element."""
    return f"<style>{card_style()}</style>"


def render_cards(hits: Sequence[Hit], read_picture: Callable[[Hit], bytes | None]) -> str:
    """Return an ordered list of cards; `read_picture` returns the JPEG of a hit, or None."""
    if not hits:
        return "<p>No image answers.</p>"
    cards = "".join(f"<li>{_card(hit, read_picture(hit))}</li>" for hit in hits)
    return f'<ol class="cbir-hits">{cards}</ol>'


def render_picture(jpeg: bytes | None, text: str) -> str:
    """Return an `img` with the data of a JPEG and an alternative text, or a note that there is none."""
    if jpeg is None:
        return f'<span class="none">{NO_PICTURE}</span>'
    data = base64.b64encode(jpeg).decode()
    return f'<img alt="{escape(text)}" src="data:image/jpeg;base64,{data}">'


def _card(hit: Hit, jpeg: bytes | None) -> str:
    labels = ", ".join(f"{key} {value}" for key, value in hit.labels.items())
    lines = [f"<p><b>{hit.rank}</b> · score {hit.score:z.3f}<br>distance {hit.distance:.3f}</p>"]
    lines += [f"<p>{escape(labels)}</p>"] if labels else []
    lines += [f'<p class="soft">{escape(hit.source or hit.image_id)}</p>']
    return render_picture(jpeg, f"rank {hit.rank}") + "".join(lines)


@dataclass(frozen=True)
class SheetRow:
    """A query with its hits.

    name: of the query. pictures: JPEG of each example, None where there is none. note: method, or the reason for
    an empty answer.
    """

    name: str
    pictures: Sequence[bytes | None]
    hits: Sequence[Hit]
    note: str


def render_sheet(
    rows: Iterable[SheetRow], read_picture: Callable[[Hit], bytes | None], title: str
) -> Iterator[str]:
    """Yield the page piece by piece.

    Parameters
    ----------
    rows : iterable of SheetRow
        Queries, in the order of the page.
    read_picture : callable
        Returns the JPEG of a hit, or None.
    title : str
        Heading.
    """
    style = PAGE_STYLE + card_style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'"
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><h1>{escape(title)}</h1>"
        '<p class="soft">The pictures are from the collection: protect this file as you protect them. Scores are '
        "relative to the query; a smaller distance is more similar. Not a medical device.</p>\n"
    )
    for row in rows:
        pictures = "".join(f"<li>{render_picture(jpeg, 'query')}</li>" for jpeg in row.pictures)
        examples = f'<ol class="cbir-hits">{pictures}</ol>' if pictures else ""
        hits = render_cards(row.hits, read_picture)
        yield (
            f'<section><header class="query"><h2>{escape(row.name)}</h2>{examples}'
            f'<p class="soft">{escape(row.note)}</p></header><div>{hits}</div></section>\n'
        )
    yield "</body></html>\n"
