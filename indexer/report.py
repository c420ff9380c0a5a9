"""The csv of files that were refused."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cbir.errors import InvalidInput
from indexer.run import Refused


@contextmanager
def report(path: Path | None) -> Iterator[Refused]:
    """A function that writes a row `path,reason`, at once; one that does nothing where there is no `path`.

    Raises InvalidInput, before anything is done, where the file cannot be written.
    """
    if path is None:
        yield lambda name, reason: None
        return
    try:
        file = path.open("w", newline="", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"the report {path} cannot be written: {error.strerror}") from error
    with file:
        rows = csv.writer(file)
        rows.writerow(["path", "reason"])

        def write(name: str, reason: str) -> None:
            rows.writerow([name, reason])
            file.flush()

        yield write
