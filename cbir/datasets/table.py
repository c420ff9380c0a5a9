"""Writes the csv that `cbir index --labels` reads: the bridge from every data set to a collection."""

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cbir.errors import InvalidInput


def write_manifest(out: Path, columns: Sequence[str], rows: Iterable[tuple[Path, Mapping[str, str]]]) -> int:
    """Write `path` and the label columns, a row an image; how many. All of it or nothing.

    Paths below the csv's folder are written relative to it, so that both can move together.
    """
    base, unfinished, count = out.resolve().parent, out.with_name(f"{out.name}.part"), 0
    try:
        with unfinished.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["path", *columns])
            for path, labels in rows:
                path = path.resolve()
                shown = path.relative_to(base) if path.is_relative_to(base) else path
                table.writerow([str(shown), *(labels.get(column, "") for column in columns)])
                count += 1
        os.replace(unfinished, out)
    except OSError as error:
        raise InvalidInput(f"{out} cannot be written: {error.strerror}") from error
    return count
