"""Append-only journal of all judgements of a study."""

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cbir.errors import CollectionBusy, InvalidInput
from cbir.store.base.damage import raise_when_full
from cbir.system.files import os_errors, private_folder, sync_folder, try_lock
from cbir.system.ownership import open_or_create

HEADER = b'{"kind": "cbir judgements", "version": 1}\n'
MAX_SECONDS = 86_400.0  # per judgement
MAX_LINE = 4096  # bytes; typical lines have 300
MAX_ENTRIES = 50_000  # of a study, undone ones included; all are in memory

Name = Annotated[str, Field(min_length=8, max_length=64, pattern=r"^[0-9A-Za-z-]+$")]
Who = Annotated[str, Field(min_length=1, max_length=100)]
ImageId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}(-[0-9]{1,9})?$")]


class PairAnswer(StrEnum):
    """The more severe image of a pair; `skip` if the person gave no answer."""

    first = "first"
    second = "second"
    alike = "alike"
    skip = "skip"


LABELS = {PairAnswer.first: 1.0, PairAnswer.alike: 0.5, PairAnswer.second: 0.0}  # of RankNet


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PairJudgement(_Entry):
    """An answer about a pair.

    `name` is made by the sender and identifies retries. `first` was on the left. `at` is the time of writing (UTC),
    `seconds` the time from showing both images to the answer, without pauses. `round` counts from 1; 0 for none.
    """

    kind: Literal["judgement"] = "judgement"
    name: Name
    at: AwareDatetime
    who: Who
    seconds: float = Field(ge=0, le=MAX_SECONDS)
    first: ImageId
    second: ImageId
    answer: PairAnswer
    round: int = Field(ge=0)

    @property
    def pair(self) -> tuple[str, str]:
        """Both image ids in ascending order."""
        return (self.first, self.second) if self.first < self.second else (self.second, self.first)


class ImageGrade(_Entry):
    """An absolute grade of one image, with fields as in `PairJudgement`; None if the person cannot judge it."""

    kind: Literal["grade"] = "grade"
    name: Name
    at: AwareDatetime
    who: Who
    seconds: float = Field(ge=0, le=MAX_SECONDS)
    image: ImageId
    grade: float | None


class Undo(_Entry):
    """Withdrawal of the judgement or grade named `undoes` of the same person."""

    kind: Literal["undo"] = "undo"
    name: Name
    at: AwareDatetime
    who: Who
    undoes: Name


Entry = PairJudgement | ImageGrade | Undo
ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


class Journal:
    """Writer of a journal, for one process at a time; thread-safe. An entry is on disk when `add` returns."""

    def __init__(self, path: Path) -> None:
        """Open or create the journal at `path`, and remove a partial last line left by a killed process.

        Raises InvalidInput if the file is damaged or not a journal, CollectionBusy if another process writes to it.
        """
        self.path = path
        self._writing = Lock()
        with raise_when_full(path.parent):
            private_folder(path.parent)
            self._file = open_or_create(path, os.O_RDWR)
            try:
                if not try_lock(self._file):
                    raise CollectionBusy(
                        f"another process is writing to {path}; stop that `cbir annotate serve` first"
                    )
                self.entries, sound = _parsed(path, path.read_bytes())
                self._repair(sound)
            except BaseException:
                os.close(self._file)
                raise
        self._by_name = {entry.name: entry for entry in self.entries}

    def _repair(self, sound: bytes) -> None:
        """Reduce the file to its `sound` content, which differs in the last line at most."""
        status = os.fstat(self._file)
        if status.st_size != len(sound):
            os.ftruncate(self._file, min(status.st_size, len(sound)))
            if status.st_size < len(sound):  # the newline of a whole last line, or all of the header
                at = 0 if status.st_size < len(HEADER) else status.st_size
                self._write(sound[at:], at)
        os.fsync(self._file)
        sync_folder(self.path.parent)
        self._end = len(sound)

    def add(self, entry: Entry) -> bool:
        """Append an entry durably; return False if it is already there, as after a retry.

        Raises InvalidInput if its name belongs to another entry, both images are the same, an undo refers to no
        judgement of that person, or the journal has as many entries as it may; StorageFull on a full disk.
        """
        with self._writing:
            if earlier := self._by_name.get(entry.name):
                if _content_of(earlier) != _content_of(entry):
                    raise InvalidInput(
                        f"the name {entry.name} belongs to another entry; names must be unique"
                    )
                return False
            self._check(entry)
            self._append(entry.model_dump_json().encode() + b"\n")
            self.entries.append(entry)
            self._by_name[entry.name] = entry
        return True

    def _check(self, entry: Entry) -> None:
        if len(self.entries) >= MAX_ENTRIES and not self._takes_back(entry):
            raise InvalidInput(
                f"a study has at most {MAX_ENTRIES} answers, undone ones included; go on in a new one"
            )
        if isinstance(entry, Undo):
            undone = self._by_name.get(entry.undoes)
            if undone is None or isinstance(undone, Undo) or undone.who != entry.who:
                raise InvalidInput(f"there is no judgement {entry.undoes} of that person to undo")
        elif isinstance(entry, PairJudgement) and entry.first == entry.second:
            raise InvalidInput(f"a pair needs two different images, not {entry.first} twice")

    def _takes_back(self, entry: Entry) -> bool:
        """Return whether an entry undoes another that stands: each can be undone, so their number is bounded too."""
        return isinstance(entry, Undo) and all(
            entry.undoes != earlier.undoes for earlier in self.entries if isinstance(earlier, Undo)
        )

    def _append(self, line: bytes) -> None:
        with raise_when_full(self.path.parent):
            try:
                if self._write(line, self._end) < len(line):
                    raise OSError(28, "No space left on device")
                os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, self._end)  # the next entry must start on a new line
                raise
        self._end += len(line)

    def _write(self, data: bytes, at: int) -> int:
        os.lseek(self._file, at, os.SEEK_SET)
        return os.write(self._file, data)

    def is_in_place(self) -> bool:
        """Return whether the path leads to the file that is written to, and not to none or to another one."""
        try:
            return os.path.samestat(os.fstat(self._file), self.path.stat())
        except OSError:
            return False

    def close(self) -> None:
        """Close the file and release its lock."""
        with self._writing:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1


def read_journal(path: Path) -> list[Entry]:
    """Read all complete entries of the journal at `path`, also while it is written; raise InvalidInput."""
    with os_errors(f"the judgements {path} cannot be read"):
        content = path.read_bytes()
    return _parsed(path, content)[0]


def valid_judgements(entries: Iterable[Entry]) -> list[PairJudgement]:
    """Return the valid judgements in order: not undone, and the last of each person about each pair."""
    return [entry for entry in _valid_answers(entries) if isinstance(entry, PairJudgement)]


def valid_grades(entries: Iterable[Entry]) -> list[ImageGrade]:
    """Return the valid grades in order: not undone, and the last of each person about each image."""
    return [entry for entry in _valid_answers(entries) if isinstance(entry, ImageGrade)]


def _valid_answers(entries: Iterable[Entry]) -> list[PairJudgement | ImageGrade]:
    last: dict[tuple[str, object], PairJudgement | ImageGrade] = {}
    for entry in not_undone(entries):
        key = entry.who, entry.image if isinstance(entry, ImageGrade) else entry.pair
        last.pop(key, None)
        last[key] = entry
    return list(last.values())


def not_undone(entries: Iterable[Entry]) -> list[PairJudgement | ImageGrade]:
    """Return the judgements and grades that were not withdrawn, in order."""
    entries = list(entries)
    undone = {entry.undoes for entry in entries if isinstance(entry, Undo)}
    return [entry for entry in entries if not isinstance(entry, Undo) and entry.name not in undone]


def utc_now() -> datetime:
    """Return the current time in UTC, to the millisecond."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _content_of(entry: Entry) -> dict[str, object]:
    return entry.model_dump(exclude={"at", "round"})  # the server adds these; they differ on a retry


def _parsed(path: Path, content: bytes) -> tuple[list[Entry], bytes]:
    """Return the entries and the sound content, without a partial last line; only a missing newline is added."""
    if len(content) < len(HEADER) and HEADER.startswith(content):
        return [], HEADER  # new, or killed while it was created
    if not content.startswith(HEADER):
        raise InvalidInput(
            f"{path} is not a journal of judgements; use another folder, or move the file away"
        )
    *lines, last = content[len(HEADER) :].split(b"\n")
    entries = [_entry(path, number, line) for number, line in enumerate(lines, 2)]
    sound = content[: len(content) - len(last)]
    if last:
        with suppress(ValidationError):  # a partial line was never acknowledged
            entries.append(ENTRY.validate_json(last))
            sound = content + b"\n"
    return entries, sound


def _entry(path: Path, number: int, line: bytes) -> Entry:
    try:
        if len(line) > MAX_LINE:
            raise ValueError
        return ENTRY.validate_json(line)
    except ValueError as error:
        raise InvalidInput(
            f"line {number} of {path} is not a judgement; the file was changed or damaged: fix that line, or restore "
            "the file from a backup"
        ) from error
