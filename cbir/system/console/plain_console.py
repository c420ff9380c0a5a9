"""A console that prints text of users and names of files as they are."""

from typing import Any

from rich.console import Console
from rich.text import Text

from cbir.system.console import printable


class PlainConsole(Console):
    """Takes nothing in a text for markup, an emoji or a sequence that controls the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Convert a text that is printed, or is in a table."""
        return super().render_str(printable(text), **options)
