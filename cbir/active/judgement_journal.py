"""Every judgement that was ever made, in a file that is only appended to: who, when, how long, which, and what."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cbir.atomic import sync_folder
from cbir.errors import CollectionBusy, InvalidInput
from cbir.file_lock import try_lock
from cbir.store.disk_full import raise_when_full

HEADER = b'{"kind": "cbir judgements", "version": 1}\n'
LONGEST_SECONDS = 86_400.0  # of one judgement
MOST_LINE = 4096  # bytes; ours have some 300

Name = Annotated[str, Field(min_length=8, max_length=64, pattern=r"^[0-9A-Za-z-]+$")]
Who = Annotated[str, Field(min_length=1, max_length=100)]
ImageId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}(-[0-9]{1,9})?$")]


class PairAnswer(StrEnum):
    """Which of the two is the more severe. skip: the person would not say."""

    first = "first"
    second = "second"
    alike = "alike"
    skip = "skip"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PairJudgement(_Entry):
    """One answer. name: made by whoever sent it, so that sending twice writes once.

    first: the image on the left. at: when it was written, UTC. seconds: from both images on the screen to the answer,
    without pauses. round: from 1; 0 where it belongs to none.
    """

    kind: Literal["judgement"] = "judgement"
    name: Name
    at: AwareDatetime
    who: Who
    seconds: float = Field(ge=0, le=LONGEST_SECONDS)
    first: ImageId
    second: ImageId
    answer: PairAnswer
    round: int = Field(ge=0)

    @property
    def pair(self) -> tuple[str, str]:
        """Both images, in the order of their ids."""
        return (self.first, self.second) if self.first < self.second else (self.second, self.first)


class Undo(_Entry):
    """An earlier judgement of the same person is taken back. undoes: its name."""

    kind: Literal["undo"] = "undo"
    name: Name
    at: AwareDatetime
    who: Who
    undoes: Name


Entry = Annotated[PairJudgement | Undo, Field(discriminator="kind")]
ENTRY: TypeAdapter[PairJudgement | Undo] = TypeAdapter(Entry)


class Journal:
    """The writing side, for one process at a time; thread-safe. An entry is on the disk when `add` returns."""

    def __init__(self, path: Path) -> None:
        """Open or begin the journal at `path`, and take away the torn end that a kill may have left.

        Raises InvalidInput for a file that is no journal or is damaged, CollectionBusy where another process writes.
        """
        self.path = path
        self._writing = Lock()
        with raise_when_full(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._lock()
                entries, sound = _parsed(path, self._content())
                self._repair(sound)
            except BaseException:
                os.close(self._file)
                raise
        self.entries: list[PairJudgement | Undo] = entries
        self._known = {entry.name: entry for entry in entries}

    def _lock(self) -> None:
        if not try_lock(self._file):
            raise CollectionBusy(
                f"another process is writing to {self.path}; end that `cbir annotate serve` first"
            )

    def _content(self) -> bytes:
        with open(self._file, "rb", closefd=False) as file:
            return file.read()

    def _repair(self, sound: bytes) -> None:
        """Make the file the sound part of it, which differs from it in its last line at most."""
        status = os.fstat(self._file)
        if status.st_size != len(sound):
            os.ftruncate(self._file, min(status.st_size, len(sound)))
            if status.st_size < len(sound):  # the newline of a whole last line, or all of the header
                at = 0 if status.st_size < len(HEADER) else status.st_size
                os.pwrite(self._file, sound[at:], at)
        os.fsync(self._file)
        sync_folder(self.path.parent)
        self._end = len(sound)

    def add(self, entry: PairJudgement | Undo) -> bool:
        """Append an entry, and wait until it is on the disk; False where it stands there already, sent once more.

        Raises InvalidInput where its name stands for something else, the two images are one, or an undo names no
        judgement of that person; StorageFull.
        """
        with self._writing:
            if earlier := self._known.get(entry.name):
                if _said(earlier) != _said(entry):
                    raise InvalidInput(f"{entry.name} is the name of another entry; each needs its own")
                return False
            self._check(entry)
            line = entry.model_dump_json().encode() + b"\n"
            self._append(line)
            self.entries.append(entry)
            self._known[entry.name] = entry
        return True

    def _check(self, entry: PairJudgement | Undo) -> None:
        if isinstance(entry, PairJudgement):
            if entry.first == entry.second:
                raise InvalidInput(f"a pair needs two different images, not {entry.first} twice")
            return
        undone = self._known.get(entry.undoes)
        if not isinstance(undone, PairJudgement) or undone.who != entry.who:
            raise InvalidInput(f"there is no judgement {entry.undoes} of that person to take back")

    def _append(self, line: bytes) -> None:
        with raise_when_full(self.path.parent):
            try:
                if os.pwrite(self._file, line, self._end) < len(line):
                    raise OSError(28, "No space left on device")
                os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, self._end)  # what follows begins on a line of its own
                raise
        self._end += len(line)

    def close(self) -> None:
        """Let go of the file, for others to write to."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_journal(path: Path) -> list[PairJudgement | Undo]:
    """Every whole entry of a journal, in the order they came, while others may be writing. Raises InvalidInput."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"the judgements {path} cannot be read: {error.strerror}") from error
    return _parsed(path, content)[0]


def valid_judgements(entries: Iterable[PairJudgement | Undo]) -> list[PairJudgement]:
    """The judgements that hold, in the order they came: not taken back, and the last of a person about a pair."""
    known = list(entries)
    undone = {entry.undoes for entry in known if isinstance(entry, Undo)}
    last: dict[tuple[str, tuple[str, str]], PairJudgement] = {}
    for entry in known:
        if isinstance(entry, PairJudgement) and entry.name not in undone:
            last.pop((entry.who, entry.pair), None)
            last[entry.who, entry.pair] = entry
    return list(last.values())


def utc_now() -> datetime:
    """This moment, UTC, in milliseconds."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _said(entry: PairJudgement | Undo) -> dict[str, object]:
    return entry.model_dump(exclude={"at", "round"})  # which the server adds: both may be others by now


def _parsed(path: Path, content: bytes) -> tuple[list[PairJudgement | Undo], bytes]:
    """The entries, and the content without a torn end; a last line that lacks its newline only gets it."""
    if len(content) < len(HEADER) and HEADER.startswith(content):
        return [], HEADER  # new, or killed while it was begun
    if not content.startswith(HEADER):
        raise InvalidInput(f"{path} is no journal of judgements; name another folder, or move the file away")
    lines = content[len(HEADER) :].split(b"\n")
    last = lines.pop()
    entries = [_entry(path, number, line) for number, line in enumerate(lines, 2)]
    sound = content[: len(content) - len(last)]
    if last:
        try:
            entries.append(ENTRY.validate_json(last))
            sound = content + b"\n"
        except ValidationError:
            pass  # it was never acknowledged
    return entries, sound


def _entry(path: Path, number: int, line: bytes) -> PairJudgement | Undo:
    try:
        if len(line) > MOST_LINE:
            raise ValueError
        return ENTRY.validate_json(line)
    except ValueError as error:
        raise InvalidInput(
            f"line {number} of {path} is no judgement; the file was changed or damaged: mend that line, or take the "
            "file from a backup"
        ) from error
