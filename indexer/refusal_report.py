"""A csv of refused files."""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cbir.errors import InvalidInput
from cbir.system.csv_cells import harmless_cell
from cbir.system.files import open_private


@contextmanager
def refusal_report(path: Path | None, *columns: str) -> Iterator[Callable[..., None]]:
    """Yield a function that writes a row `path,reason` at once, or does nothing if `path` is None.

    `columns` are the names of the columns before the reason, of what is refused.

    Paths may be names of patients, so only its owner can read a new file.
    A path that a spreadsheet would run as a formula begins with an apostrophe. Raises InvalidInput, before anything
    is done, if the file cannot be written.
    """
    if path is None:
        yield lambda *cells: None
        return
    try:
        file = open(path, "w", newline="", encoding="utf-8", opener=open_private)  # noqa: SIM115 - closed below
    except OSError as error:
        raise InvalidInput(f"the report {path} cannot be written: {error.strerror}") from error
    with file:
        rows = csv.writer(file)
        rows.writerow([*(columns or ("path",)), "reason"])

        def write_row(*cells: str) -> None:
            rows.writerow([*map(harmless_cell, cells[:-1]), cells[-1]])
            file.flush()

        yield write_row
