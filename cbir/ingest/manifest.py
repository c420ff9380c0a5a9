"""Manifests: a csv with a row for each image, `path` and any labels (label, grade, patient, modality, ...)."""

import csv
import io
import json
import os
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TextIO, TypeVar

from cbir.errors import InvalidInput


def existing_path(absolute: Callable[[str, str], str], base: str, path: str) -> str:
    """Return the absolute path of a file, in the spelling that exists; as `absolute` has it where none does.

    Parameters
    ----------
    absolute : callable
        Makes a path relative to `base` absolute.
    base : str
        Folder that paths are relative to.
    path : str
        Path of a manifest; spaces around it that are not of the name are left out.
    """
    trimmed = path.strip()
    plain = absolute(base, trimmed)
    if path == trimmed and path.isascii() and "\\" not in path:  # nearly all of them
        return plain
    slashes = (text.replace("\\", "/") for text in (path, trimmed))
    for spelled in dict.fromkeys((path, trimmed, *slashes)):
        text = absolute(base, spelled)
        match = text if os.path.lexists(text) else _other_form(text)
        if match is not None:
            return absolute(base, match)
    return plain


def _other_form(path: str) -> str | None:
    """Return the path that differs in the Unicode form of its parts alone; None if there is none."""
    match = os.sep
    for part in path.split(os.sep):
        if not part:
            continue
        name = os.path.join(match, part)
        if not os.path.lexists(name):
            other = _names(match, os.stat(match).st_mtime_ns).get(unicodedata.normalize("NFC", part))
            if other is None:
                return None
            name = os.path.join(match, other)
        match = name
    return match


@lru_cache(maxsize=64)
def _names(folder: str, changed: int) -> dict[str, str]:
    """Return the names in a folder, as it is since a time of its last change, by their composed form."""
    try:
        return {unicodedata.normalize("NFC", name): name for name in os.listdir(folder)}
    except OSError:
        return {}


SomePath = TypeVar("SomePath")  # a path, or what has an address as its text

WHOLE_NUMBER = re.compile(r"-?[0-9]{1,7}")

SEPARATORS = (",", ";", "\t")

OTHER_NAMES = {  # of a column of paths, see `_plain`
    "file", "filename", "filepath", "image", "imagefile", "imagename", "imagepath", "pfad", "dateipfad", "datei",
    "dateiname",
}  # fmt: skip

PATIENT = {"patient", "patientid", "patientidentifier", "patientname", "patientkey"}


def canonical_path(path: Path) -> Path:
    """Return an absolute path without links among its folders; a file that is itself a link keeps its name."""
    return Path(_resolve(str(path.parent))) / path.name


@lru_cache(maxsize=4096)
def _resolve(folder: str) -> str:
    return str(Path(folder).resolve())


def _canonical_text(base: str, path: str) -> str:
    """Return `canonical_path` of a path relative to `base`, without a Path for every row."""
    folder, name = os.path.split(os.path.join(base, path))
    if name in ("", ".", ".."):
        return str(canonical_path(Path(base, path)))
    return os.path.join(_resolve(folder), name)


def _open_text(path: Path, content: bytes | None) -> TextIO:
    if content is None:
        return path.open(newline="", encoding="utf-8-sig")
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")


def _find_separator(header: str) -> str:
    """Return the character that separates the values of a header: one of them is `path`, else there are the most."""
    split = {each: next(csv.reader([header], delimiter=each), []) for each in SEPARATORS}
    for separator, names in split.items():
        if any(name.strip().casefold() == "path" for name in names):
            return separator
    return max(SEPARATORS, key=lambda separator: len(split[separator]))


def _plain(column: str) -> str:
    """Return the name of a column without capitals, spaces and hyphens."""
    return re.sub("[_ -]", "", column.casefold())


def names_patient(column: str) -> bool:
    """Return whether a column of this name names the patient, in any spelling."""
    return _plain(column) in PATIENT


class Manifest:
    """Labels by file.

    Paths are relative to the csv's folder, or absolute. Every other column is a label, except `patient` (also
    PatientID and the like), which identifies a person. Values are separated by commas, or as by some spreadsheets by
    semicolons or tabs, and `path` may have capitals. Rows are in a temporary SQLite file, so that a million of
    them take no memory. Not thread-safe. Raises InvalidInput, naming the line, if the csv cannot be used.
    """

    def __init__(self, path: Path | str, content: bytes | None = None, folder: str | None = None) -> None:
        """Read a manifest.

        Parameters
        ----------
        path : Path or str
            The csv; with `content` its name, for messages.
        content : bytes, optional
            Content of the csv, where it is in no file.
        folder : str, optional
            Address of the folder in an object store that paths are relative to; the csv's own by default.
        """
        self.path = Path(path)
        self._folder = folder
        self.columns: tuple[str, ...] = ()
        self._rows = sqlite3.connect("")  # a temporary file that SQLite deletes by itself
        self._rows.execute("CREATE TABLE rows (path TEXT PRIMARY KEY, labels TEXT, used INTEGER DEFAULT 0)")
        try:
            with _open_text(self.path, content) as file:
                self._rows.executemany("INSERT INTO rows (path, labels) VALUES (?, ?)", self._read(file))
        except sqlite3.IntegrityError:
            raise InvalidInput(
                f"{path}: two rows name the same file, the second is {self._current}"
            ) from None
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{path} is not UTF-8; save it as UTF-8 csv") from error
        except csv.Error as error:
            raise InvalidInput(f"{path}: {error}") from error
        except OSError as error:
            raise InvalidInput(f"the manifest {path} cannot be read: {error.strerror}") from error

    def _read(self, file: Iterable[str]) -> Iterable[tuple[str, str]]:
        lines = iter(file)
        first = next(lines, "")
        reader = csv.DictReader(chain([first], lines), strict=True, delimiter=_find_separator(first))
        reader.fieldnames = self._header(reader.fieldnames or ())
        self.columns = tuple(name for name in reader.fieldnames if name != "path")
        base = str(self.path.parent.resolve())
        for row in reader:
            self._current = row["path"]
            if None in row or None in row.values():
                raise InvalidInput(
                    f"{self.path}, line {reader.line_num}: the row and the header have different numbers of values"
                )
            path = row.pop("path")
            labels = {name: value.strip() for name, value in row.items() if value.strip()}
            if "study_day" in labels and not WHOLE_NUMBER.fullmatch(labels["study_day"]):
                raise InvalidInput(
                    f"{self.path}, line {reader.line_num}: study_day is a whole number of days of at most 7 digits"
                )
            try:
                yield self._address(base, path), json.dumps(labels)
            except (OSError, ValueError, RuntimeError) as error:  # embedded zeros, links in a circle
                raise InvalidInput(f"{self.path}, line {reader.line_num}: the path cannot be used") from error

    def _address(self, base: str, path: str) -> str:
        if "://" in path:
            return path.strip()
        if self._folder is not None:
            return f"{self._folder}/{path.strip()}"
        return existing_path(_canonical_text, base, path)

    def _header(self, names: Sequence[str]) -> list[str]:
        """Return column names without surrounding spaces; every spelling of `patient` becomes that."""
        header = [name.strip() for name in names]
        header = ["patient" if names_patient(name) else name for name in header]
        if "path" not in header:
            header = ["path" if name.casefold() == "path" else name for name in header]
        if "path" not in header:
            paths = [name for name in header if _plain(name) in OTHER_NAMES]
            advice = (
                f"rename its column `{paths[0]}`"
                if paths
                else "its first line must name the columns, separated by commas, semicolons or tabs"
            )
            raise InvalidInput(f"{self.path} has no column `path`; {advice}")
        for name in header:
            if header.count(name) > 1:
                raise InvalidInput(f"{self.path} has two columns `{name}`; names must be unique")
            if set(name) & set("=!<>"):
                raise InvalidInput(
                    f"{self.path}: the column `{name}` has a character that filters use; rename it"
                )
        return header

    def __len__(self) -> int:
        return int(self._rows.execute("SELECT count(*) FROM rows").fetchone()[0])

    def texts(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield every path, or address in an object store, with its labels, in the order of the csv."""
        for path, text in self._rows.execute("SELECT path, labels FROM rows ORDER BY rowid"):
            yield path, json.loads(text)

    def rows(self) -> Iterator[tuple[Path, dict[str, str]]]:
        """Yield every file with its labels, in the order of the csv."""
        for path, labels in self.texts():
            yield Path(path), labels

    def labels(self, paths: Sequence[SomePath]) -> dict[SomePath, dict[str, str]]:
        """Return the labels of those of `paths` (canonical, at most 10,000) that the manifest contains."""
        by_text = {str(path): path for path in paths}
        among = f"WHERE path IN ({','.join('?' * len(by_text))})"
        rows = self._rows.execute(f"SELECT path, labels FROM rows {among}", tuple(by_text)).fetchall()
        self._rows.execute(f"UPDATE rows SET used = 1 {among}", tuple(by_text))
        return {by_text[path]: json.loads(text) for path, text in rows}

    def unused(self) -> int:
        """Return the number of rows that `labels` never returned: their files were not among the sources."""
        return int(self._rows.execute("SELECT count(*) FROM rows WHERE NOT used").fetchone()[0])
