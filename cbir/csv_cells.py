"""Cells of csv files that spreadsheets open."""

import math
from typing import Any

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def harmless_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula, with an apostrophe before one; numbers stay."""
    if not isinstance(value, str) or not value.startswith(FORMULA_STARTS):
        return value
    try:
        return value if math.isfinite(float(value)) and value == value.strip() else f"'{value}"
    except ValueError:
        return f"'{value}"
