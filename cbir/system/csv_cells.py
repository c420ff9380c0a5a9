"""Csv files that spreadsheets open."""

import csv
import io
import math
import re
from collections.abc import Iterable
from typing import Any

# Where a spreadsheet separates by ; or tabs, quotes of ours hold no cell together, and a line break ends a row.
SEPARATORS = re.compile(r"([;\t\r\n])")
FORMULA = re.compile(r"[\s\"]*[=+\-@\uff1d\uff0b\uff0d\uff20]")  # also full-width, which Excel reads alike
CONTROL_STARTS = ("\t", "\r", "\n")


def harmless_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula, with an apostrophe before one; numbers stay.

    A formula may also follow a semicolon, tab or line break, which separates cells in many spreadsheets.
    """
    if not isinstance(value, str):
        return value
    text = "".join(_harmless_part(part) for part in SEPARATORS.split(value))
    return f"'{text}" if text.startswith(CONTROL_STARTS) else text


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as csv, each of their cells harmless."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(harmless_cell, row) for row in rows)
    return text.getvalue()


def _harmless_part(part: str) -> str:
    if not FORMULA.match(part):
        return part
    try:
        return part if math.isfinite(float(part)) and part == part.strip() else f"'{part}"
    except ValueError:
        return f"'{part}"
