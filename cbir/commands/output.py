"""Output of the commands."""

from enum import StrEnum


class OutputFormat(StrEnum):
    """Formats of printed results."""

    text = "text"
    json = "json"
