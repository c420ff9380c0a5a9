"""HTML of hits: a card with picture, rank, score, labels and file for each."""

import base64
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files

from cbir.search.search_models import Hit

NO_PICTURE = "no picture: its file is missing or has changed, or text may be burned in"


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
    lines = [f"<p><b>{hit.rank}</b> · score {hit.score:.3f}<br>distance {hit.distance:.3f}</p>"]
    lines += [f"<p>{escape(labels)}</p>"] if labels else []
    lines += [f'<p class="soft">{escape(hit.source or hit.image_id)}</p>']
    return render_picture(jpeg, f"rank {hit.rank}") + "".join(lines)
