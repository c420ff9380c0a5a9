"""Writer of the csv that `cbir index --labels` reads."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cbir.errors import InvalidInput
from cbir.system.atomic import atomic_text


def write_manifest(out: Path, columns: Sequence[str], rows: Iterable[tuple[Path, Mapping[str, str]]]) -> int:
    """Write a manifest atomically; paths below its folder are relative, so that both can move together.

    Parameters
    ----------
    out : Path
        The csv.
    columns : sequence of str
        Labels, the columns after `path`.
    rows : iterable of (path, labels)

    Returns
    -------
    int
        Number of rows.
    """
    base, count = out.resolve().parent, 0
    try:
        with atomic_text(out) as file:
            table = csv.writer(file)
            table.writerow(["path", *columns])
            for path, labels in rows:
                path = path.resolve()
                relative = path.relative_to(base) if path.is_relative_to(base) else path
                table.writerow([str(relative), *(labels.get(column, "") for column in columns)])
                count += 1
    except OSError as error:
        raise InvalidInput(f"{out} cannot be written: {error.strerror}") from error
    return count
