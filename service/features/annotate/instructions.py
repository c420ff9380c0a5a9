"""Instructions of a study: Markdown as HTML that holds no script, no foreign HTML and no picture of another site."""

from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

TOP_LEVEL = 3  # of the headings: those of the page are h1 and h2


def render_instructions(text: str) -> Markup:
    """Return `text`, Markdown after CommonMark with tables, as safe HTML; headings begin at h3."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("image", _alternative_text)
    tokens = markdown.parse(text)
    levels = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(TOP_LEVEL + int(token.tag[1]) - min(levels), 6)}"
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("rel", "noreferrer")
                child.attrSet("target", "_blank")
        token.attrs.pop("style", None)  # of table cells; the page allows no inline style
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))  # made from escaped text


def _alternative_text(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    return str(escape(tokens[index].content))
