"""Markdown of generated pages."""

from collections.abc import Iterable, Sequence


def escape_cell(text: str) -> str:
    """Escape what would end a cell of a table or become HTML."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[").split())


def code(text: str) -> str:
    """Return inline code for a cell of a table."""
    return f"`{text}`" if text else ""


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; cells are Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return ["", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *lines, ""] if lines else [""]
