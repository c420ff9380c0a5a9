"""A csv of refused files."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cbir.atomic import open_private
from cbir.csv_cells import harmless_cell
from cbir.errors import InvalidInput

if TYPE_CHECKING:
    from indexer.index_summary import ReportRefusal


@contextmanager
def refusal_report(path: Path | None, column: str = "path") -> "Iterator[ReportRefusal]":
    """Yield a function that writes a row `path,reason` at once, or does nothing if `path` is None.

    `column` is the name of the first column, of what is refused.

    Paths may be names of patients, so only its owner can read a new file.
    A path that a spreadsheet would run as a formula begins with an apostrophe. Raises InvalidInput, before anything
    is done, if the file cannot be written.
    """
    if path is None:
        yield lambda name, reason: None
        return
    try:
        file = open(path, "w", newline="", encoding="utf-8", opener=open_private)  # noqa: SIM115 - closed below
    except OSError as error:
        raise InvalidInput(f"the report {path} cannot be written: {error.strerror}") from error
    with file:
        rows = csv.writer(file)
        rows.writerow([column, "reason"])

        def write_row(name: str, reason: str) -> None:
            rows.writerow([harmless_cell(name), reason])
            file.flush()

        yield write_row
