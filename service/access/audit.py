"""Append-only audit log of JSON lines: who did what, when. Its files, the key of its chain, and notes of its end."""

import errno
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from flask import g

from cbir.errors import InvalidInput
from cbir.system.files import BINARY, has_room, private_folder, wait_lock
from cbir.system.ownership import open_or_create
from service.access.audit_chain import (
    CHECK,
    NOT_WRITTEN,
    RESTARTED,
    AuditWriter,
    ChainHead,
    chain_line,
    read_head,
    read_key,
    read_or_create_key,
    start_chain,
    time_of_line,
)
from service.access.chain_check import ChainReport, LogLine, verify_chain

IMAGE_ID = re.compile(r"[0-9a-f]{32}(-[0-9]{1,9})?")

HEAD_BYTES = 160  # fixed, so that the note is written in place
TAIL_BYTES = 64 * 2**10  # longer than any line
ROTATED = re.compile("[1-9][0-9]{0,17}")  # numbers of rotated files

log = logging.getLogger(__name__)


@dataclass
class ChainState:
    """State of the chain while its lock is held.

    size: of the log when its last line was noted. restarted: the note was missing although there was a chain.
    """

    key: bytes
    head: ChainHead
    size: int
    path: Path
    note: int  # descriptor
    restarted: bool = False

    def save(self, head: ChainHead, size: int) -> None:
        """Note the last line of the log, and the size of the log with it."""
        self.head, self.size = head, size
        text = json.dumps({"n": head.number, "mac": head.mac, "size": size})
        os.lseek(self.note, 0, os.SEEK_SET)
        os.write(self.note, text.ljust(HEAD_BYTES - 1).encode() + b"\n")

    def ends_in_newline(self, size: int) -> bool:
        """Return False if the log of `size` bytes ends in the middle of a line, as after a full disk."""
        if size == self.size:
            return True
        try:
            with self.path.open("rb") as file:
                file.seek(size - 1)
                return file.read(1) == b"\n"
        except OSError:  # the file may be write-only
            return True


class AuditFiles:
    """Files of one audit log at `path`: path.1, path.2, ... the rotated ones, path.key and path.head."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key_file = path.with_name(f"{path.name}.key")
        self.note_file = path.with_name(f"{path.name}.head")

    @contextmanager
    def locked(self) -> Iterator[ChainState]:
        """Yield the state of the chain, for one process at a time; raises OSError and InvalidInput.

        Creates the key and the note of the last line, unless they exist.
        """
        had_note = self.note_file.exists()
        note = open_or_create(self.note_file, os.O_RDWR)
        try:
            wait_lock(note)
            had_key = self.key_file.exists()
            state = self._read_state(read_or_create_key(self.key_file), note)
            if state.restarted and not (had_key and (self._has_lines() or not had_note)):  # the first start
                state.restarted = False
                state.save(state.head, state.size)
            yield state
        finally:
            os.close(note)

    def _has_lines(self) -> bool:
        return any(file.stat().st_size for file in (*self.rotated(), self.path) if file.is_file())

    def _read_state(self, key: bytes, note: int) -> ChainState:
        noted, size = _parse_note(os.read(note, HEAD_BYTES))
        current = self.path.stat().st_size if self.path.is_file() else 0
        state = ChainState(key, noted or ChainHead(0, ""), size, self.path, note)
        if noted is None:
            state.head = self._last_line(key) or start_chain(key)
            state.size = -1  # the last line may be incomplete
            state.restarted = True
        elif current != size and (last := self._last_line(key)) and last.number > noted.number:
            state.head = (
                last  # the process stopped between the line and its note, or a power cut lost the note
            )
        return state

    def _last_line(self, key: bytes) -> ChainHead | None:
        """Return the last authentic line of the log, or of its newest rotated file."""
        for path in (self.path, *self.rotated()[-1:]):
            if path.is_file():
                with path.open("rb") as file:
                    file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
                    lines = file.read().split(b"\n")
                if head := next((head for line in reversed(lines) if (head := read_head(key, line))), None):
                    return head
        return None

    def rotated(self) -> list[Path]:
        """Return the rotated files, the oldest first."""
        numbered = {
            int(suffix): file for suffix, file in self._siblings().items() if ROTATED.fullmatch(suffix)
        }
        return [numbered[number] for number in sorted(numbered) if numbered[number].is_file()]

    def _siblings(self) -> dict[str, Path]:
        """Return what is in the folder under a name that begins with the log's, by the rest of the name."""
        prefix = f"{self.path.name}."
        names = (path for path in self.path.parent.iterdir() if path.name.startswith(prefix))
        return {path.name.removeprefix(prefix): path for path in names}

    def exists(self) -> bool:
        """Return whether there is any file of the log."""
        return self.path.parent.is_dir() and (self.path.exists() or bool(self._siblings()))

    def _foreign_files(self) -> list[str]:
        """Return the names of files that look like the log's, but that no service makes."""
        expected = {path.name for path in (*self.rotated(), self.key_file, self.note_file)}
        return sorted(path.name for path in self._siblings().values() if path.name not in expected)

    def rotate(self) -> None:
        """Rename the current file to the next number; raises OSError."""
        rotated = self.rotated()
        number = int(rotated[-1].suffix[1:]) + 1 if rotated else 1
        self.path.rename(self.path.with_name(f"{self.path.name}.{number}"))

    def head(self) -> ChainHead:
        """Return the last line that the service has noted; raises InvalidInput without one."""
        try:
            noted, _ = _parse_note(self.note_file.read_bytes()[:HEAD_BYTES])
        except OSError as error:
            raise InvalidInput(f"{self.note_file} cannot be read: {error.strerror}") from error
        if noted is None:
            raise InvalidInput(f"{self.note_file} notes no line")
        return noted

    def verify(self, first: int = 1, known: tuple[ChainHead, ...] = ()) -> ChainReport:
        """Check all files, the rotated ones first.

        Parameters
        ----------
        first : int
            Number of the first line, if older files have been archived elsewhere.
        known : tuple of ChainHead
            Heads that were noted elsewhere.

        Raises
        ------
        InvalidInput
            If a file cannot be read.
        """
        try:
            key = read_key(self.key_file)
            noted, sizes = self._snapshot()
            report = verify_chain(key, _lines(sizes), noted, first, known, self.path.name)
            report.faults += [
                f"{name}: is not part of the log; move it elsewhere" for name in self._foreign_files()
            ]
            return report
        except OSError as error:
            raise InvalidInput(f"{error.filename} cannot be read: {error.strerror}") from error

    def _snapshot(self) -> tuple[ChainHead | None, list[tuple[Path, int]]]:
        """Return the noted head and the size of every file as of one moment, since the service goes on writing."""
        try:
            note = os.open(self.note_file, os.O_RDWR | BINARY)
        except FileNotFoundError:
            note = -1
        try:
            if note >= 0:
                wait_lock(note)
            noted, _ = _parse_note(os.read(note, HEAD_BYTES)) if note >= 0 else (None, 0)
            files = [*self.rotated(), *([self.path] if self.path.is_file() else [])]
            return noted, [(file, file.stat().st_size) for file in files]
        finally:
            if note >= 0:
                os.close(note)


def _parse_note(content: bytes) -> tuple[ChainHead | None, int]:
    try:
        note = json.loads(content)
        return ChainHead(int(note["n"]), str(note["mac"])), int(note["size"])
    except (ValueError, KeyError, TypeError):
        return None, 0


def _lines(files: list[tuple[Path, int]]) -> Iterator[LogLine]:
    for path, size in files:
        with path.open("rb") as file:
            number = 0
            while (left := size - file.tell()) > 0:
                number += 1
                yield LogLine(path.name, number, file.readline(left))


class AuditLog(AuditWriter):
    """Appends lines to a chain of files. Thread-safe, and several processes may append to one file.

    A new file is created when the last one was moved away or deleted, or has reached `max_bytes` (0: never).
    """

    def __init__(self, path: Path, max_bytes: int = 0) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._lock = Lock()
        self._files = AuditFiles(path)
        self._file = -1
        self._missing = 0  # lines that could not be written and are not counted by a later line yet
        self.open()

    def open(self) -> None:
        """Open the file again; raise InvalidInput if it cannot be written."""
        try:
            self._open_file()
            with self._files.locked() as chain:
                self._note_restart(chain)
        except OSError as error:
            raise InvalidInput(f"audit_log {self.path} cannot be written: {error.strerror}") from error

    def _open_file(self) -> None:
        private_folder(self.path.parent)
        file = open_or_create(self.path, os.O_WRONLY | os.O_APPEND)
        self.close()
        self._file = file

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _add(self, fields: dict[str, Any]) -> None:
        with self._lock:
            try:
                with self._files.locked() as chain:
                    self._note_restart(chain)
                    self._note_missing(chain)
                    self._append(chain, fields)
            except OSError:
                self._missing += fields["action"] != CHECK
                raise

    def _check_place(self) -> None:
        with self._lock, self._files.locked():
            if self._was_moved():
                self._open_file()
            if not has_room(self.path.parent):  # even where a line or two may fit into the file's last block
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def _note_restart(self, chain: ChainState) -> None:
        if chain.restarted:
            log.error("%s is missing, so lines of the audit log may have been removed", self._files.note_file)
            self._append(chain, {"time": time_of_line(), "action": RESTARTED})

    def _note_missing(self, chain: ChainState) -> None:
        if self._missing:
            self._append(chain, {"time": time_of_line(), "action": NOT_WRITTEN, "count": self._missing})
            self._missing = 0

    def _append(self, chain: ChainState, fields: dict[str, object]) -> None:
        if self._was_moved():
            self._open_file()
        line, head = chain_line(chain.key, chain.head, fields)
        size = os.fstat(self._file).st_size
        if self.max_bytes and size and size + len(line) > self.max_bytes:
            self._rotate()
            size = 0
        torn = size and not chain.ends_in_newline(size)
        text = b"\n" + line if torn else line
        written = os.write(self._file, text)
        if written < len(text):
            raise OSError(f"a line of {self.path} was cut short; is the disk full?")
        chain.save(head, size + written)
        chain.restarted = False

    def _rotate(self) -> None:
        try:
            self._files.rotate()
        except OSError as error:
            log.error("the audit log %s cannot be rotated: %s", self.path, error.strerror)
        self._open_file()

    def _was_moved(self) -> bool:
        try:
            current, opened = self.path.stat(), os.fstat(self._file)
        except OSError:
            return True
        return (current.st_dev, current.st_ino) != (opened.st_dev, opened.st_ino)


def log_images(image_ids: Iterable[str | None]) -> None:
    """Add image ids to the audit line of the current request.

    Text that is not an image id of this project is dropped, since clients can send anything as an id.
    """
    images: dict[str, None] = g.setdefault("audit_images", {})
    images.update(
        dict.fromkeys(image_id for image_id in image_ids if image_id and IMAGE_ID.fullmatch(image_id))
    )


def log_fields(**fields: Any) -> None:
    """Add fields to the audit line of the current request, see `AuditWriter.write`; job: made by the service.

    A list is appended to that of an earlier call, as each query of a batch makes one.
    """
    logged: dict[str, Any] = g.setdefault("audit_fields", {})
    for name, value in fields.items():
        logged[name] = [*logged.get(name, []), *value] if isinstance(value, list) else value
