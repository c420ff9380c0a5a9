"""A csv with a row an image: `path` and any labels (label, grade, patient, modality, anatomy, irma_code, ...)."""

import csv
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from cbir.errors import InvalidInput

PATIENT = {"patient", "patientid", "patientidentifier", "patientname", "patientkey"}


def canonical_path(path: Path) -> Path:
    """Where a file lies, without links among its folders; a file that is itself a link keeps its name."""
    return Path(_resolved(str(path.parent))) / path.name


@lru_cache(maxsize=4096)
def _resolved(folder: str) -> str:
    return str(Path(folder).resolve())


def _placed(base: str, path: str) -> str:
    """`place` of a path relative to `base`, without making a Path of every row."""
    folder, name = os.path.split(os.path.join(base, path))
    if name in ("", ".", ".."):
        return str(canonical_path(Path(base, path)))
    return os.path.join(_resolved(folder), name)


def _plain(name: str) -> str:
    return name.casefold().replace("_", "").replace(" ", "").replace("-", "")


class Manifest:
    """Labels by file. Paths are relative to the csv's folder, or absolute; every other column is a label, but for
    `patient` (also PatientID and the like), which identifies a person.

    Rows are kept in a temporary SQLite file, so that a million of them cost no memory. Not thread-safe.
    Raises InvalidInput, naming the line, where the csv cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: tuple[str, ...] = ()
        self._rows = sqlite3.connect("")  # a temporary file that SQLite deletes by itself
        self._rows.execute("CREATE TABLE rows (path TEXT PRIMARY KEY, labels TEXT, used INTEGER DEFAULT 0)")
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                self._rows.executemany("INSERT INTO rows (path, labels) VALUES (?, ?)", self._read(file))
        except sqlite3.IntegrityError:
            raise InvalidInput(f"{path}: two rows name the same file, the second is {self._at}") from None
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{path} is not UTF-8; save it as UTF-8 csv") from error
        except csv.Error as error:
            raise InvalidInput(f"{path}: {error}") from error
        except OSError as error:
            raise InvalidInput(f"the manifest {path} cannot be read: {error.strerror}") from error

    def _read(self, file: Iterable[str]) -> Iterable[tuple[str, str]]:
        reader = csv.DictReader(file, strict=True)
        reader.fieldnames = self._header(reader.fieldnames or ())
        self.columns = tuple(name for name in reader.fieldnames if name != "path")
        base = str(self.path.parent.resolve())
        for row in reader:
            self._at = row["path"]
            if None in row or None in row.values():
                raise InvalidInput(
                    f"{self.path}, line {reader.line_num}: the row has not as many values as the header"
                )
            told = {name: value.strip() for name, value in row.items() if value.strip()}
            try:
                yield _placed(base, told.pop("path", "")), json.dumps(told)
            except (OSError, ValueError, RuntimeError) as error:  # embedded zeros, links in a circle
                raise InvalidInput(f"{self.path}, line {reader.line_num}: the path cannot be used") from error

    def _header(self, names: Sequence[str]) -> list[str]:
        """Column names without spaces around them; every way to write `patient` becomes that."""
        header = [name.strip() for name in names]
        header = ["patient" if _plain(name) in PATIENT else name for name in header]
        if "path" not in header:
            raise InvalidInput(f"{self.path} has no column `path`; its first line must name the columns")
        for name in header:
            if header.count(name) > 1:
                raise InvalidInput(f"{self.path} has two columns `{name}`; name each once")
            if set(name) & set("=!<>"):
                raise InvalidInput(f"{self.path}: the column `{name}` has a sign that filters use; rename it")
        return header

    def __len__(self) -> int:
        return int(self._rows.execute("SELECT count(*) FROM rows").fetchone()[0])

    def rows(self) -> Iterator[tuple[Path, dict[str, str]]]:
        """Every file with its labels, in the order of the csv."""
        for path, text in self._rows.execute("SELECT path, labels FROM rows ORDER BY rowid"):
            yield Path(path), json.loads(text)

    def labels(self, paths: Sequence[Path]) -> dict[Path, dict[str, str]]:
        """Labels of those of `paths` (absolute, resolved) that the manifest names, at most 10,000 at a time."""
        named = {str(path): path for path in paths}
        marks = ",".join("?" * len(named))
        found = self._rows.execute(
            f"SELECT path, labels FROM rows WHERE path IN ({marks})", tuple(named)
        ).fetchall()
        self._rows.execute(f"UPDATE rows SET used = 1 WHERE path IN ({marks})", tuple(named))
        return {named[path]: json.loads(text) for path, text in found}

    def unused(self) -> int:
        """Rows that `labels` was never asked for: their files were not among the sources."""
        return int(self._rows.execute("SELECT count(*) FROM rows WHERE NOT used").fetchone()[0])
