"""Writes the csv that `cbir index --labels` reads: the bridge from every data set to a collection."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cbir.atomic import atomic_text
from cbir.errors import InvalidInput


def write_manifest(out: Path, columns: Sequence[str], rows: Iterable[tuple[Path, Mapping[str, str]]]) -> int:
    """Write `path` and the label columns, a row an image; how many. All of it or nothing.

    Paths below the csv's folder are written relative to it, so that both can move together.
    """
    base, count = out.resolve().parent, 0
    try:
        with atomic_text(out) as file:
            table = csv.writer(file)
            table.writerow(["path", *columns])
            for path, labels in rows:
                path = path.resolve()
                shown = path.relative_to(base) if path.is_relative_to(base) else path
                table.writerow([str(shown), *(labels.get(column, "") for column in columns)])
                count += 1
    except OSError as error:
        raise InvalidInput(f"{out} cannot be written: {error.strerror}") from error
    return count
