"""Records as rows of a csv table: their facts and a column for each label."""

from collections.abc import Sequence
from typing import Any

from cbir.store.records.records import Record
from cbir.system.csv_cells import harmless_cell


def table_header(columns: Sequence[str], keys: Sequence[str]) -> list[Any]:
    """Return the names of `columns`, fields of records, and of labels; `label:KEY` where a field has the name."""
    return [harmless_cell(name) for name in (*columns, *(f"label:{k}" if k in columns else k for k in keys))]


def table_row(record: Record, columns: Sequence[str], keys: Sequence[str]) -> list[Any]:
    """Return the values of a record for `table_header`; a cell that a spreadsheet would run gets an apostrophe."""
    values = [getattr(record, column) for column in columns]
    return [harmless_cell(value) for value in (*values, *(record.labels.get(key, "") for key in keys))]
