"""What a power cut may leave on a disk, from the trace of the calls that a process made.

Data that were not synced may be lost, in any order, and a write may be torn between two sectors. Creations, renames
and removals happen in their order, as on a file system with a journal: a cut loses the last of them, back to the last
sync of their folder.
"""

import os
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

HEAD = struct.Struct("<cQQII")
SECTOR = 512
VOLATILE = "-shm"  # SQLite's index of its log; it is made again when no process has it open


class Call(NamedTuple):
    """A call of the trace; see shim.c. kind: its letter. first, second: paths, or the data written."""

    kind: str
    inode: int
    offset: int
    first: bytes
    second: bytes

    @property
    def paths(self) -> tuple[str, str]:
        """Both texts as paths."""
        return os.fsdecode(self.first), os.fsdecode(self.second)


def read_trace(path: Path) -> list[Call]:
    """Return the calls in a trace."""
    data, position, calls = path.read_bytes(), 0, []
    while position < len(data):
        kind, inode, offset, first, second = HEAD.unpack_from(data, position)
        middle = position + HEAD.size + first
        calls.append(
            Call(
                kind.decode(),
                inode,
                offset,
                data[position + HEAD.size : middle],
                data[middle : middle + second],
            )
        )
        position = middle + second
    return calls


@dataclass
class TracedFile:
    """A file. durable: its content at the last sync. later: writes and truncations since."""

    durable: bytes = b""
    later: list[tuple[int, bytes | None]] = field(default_factory=list)

    def synced(self) -> None:
        """Make everything durable."""
        self.durable, self.later = apply_changes(self.durable, self.later), []

    def after_cut(self, rng: random.Random, kept: float) -> bytes:
        """Return a content that a cut may leave; each change since the last sync is kept with this probability."""
        changes = []
        for offset, data in self.later:
            if rng.random() >= kept:
                continue
            if data is not None and len(data) > SECTOR and rng.random() < 0.2:
                data = data[: SECTOR * rng.randrange(1, len(data) // SECTOR + 1)]
            changes.append((offset, data))
        return apply_changes(self.durable, changes)


def apply_changes(content: bytes, changes: list[tuple[int, bytes | None]]) -> bytes:
    """Return the content after writes at offsets; those without data set the length."""
    result = bytearray(content)
    for offset, data in changes:
        end = offset if data is None else offset + len(data)
        if len(result) < end:
            result.extend(bytes(end - len(result)))
        if data is None:
            del result[end:]
        else:
            result[offset:end] = data
    return bytes(result)


class Disk:
    """Files below a folder, as of the first calls of a trace.

    Parameters
    ----------
    folder : Path
        Folder with the files that were durable before the trace; read at once.
    """

    def __init__(self, folder: Path) -> None:
        self.root = str(folder)
        self.inodes: dict[int, TracedFile] = {}
        self.names: dict[str, TracedFile | None] = {}  # None: a folder
        self.marks: list[str] = []
        self._changes: list[Call | tuple[str, TracedFile]] = []  # of names
        self._durable = 0  # of these changes
        for path in sorted(folder.rglob("*")):
            if path.is_dir():
                self.names[str(path)] = None
            elif not path.name.endswith(VOLATILE):
                inode = path.stat().st_ino
                self.names[str(path)] = self.inodes.setdefault(inode, TracedFile(path.read_bytes()))

    def apply(self, call: Call) -> None:
        """Take the next call."""
        match call.kind:
            case "K":
                self.marks.append(call.first.decode())
            case "C":
                file = self.inodes[call.inode] = TracedFile()
                self._changes.append((os.fsdecode(call.first), file))
            case "W":
                self._later(call, call.first)
            case "T":
                self._later(call, None)
            case "S":
                if call.inode in self.inodes:
                    self.inodes[call.inode].synced()
            case "D":
                self._sync_folder(os.fsdecode(call.first))
            case "A":
                for file in self.inodes.values():
                    file.synced()
                self._durable = len(self._changes)
            case _:
                self._changes.append(call)

    def _later(self, call: Call, data: bytes | None) -> None:
        if call.inode in self.inodes:
            self.inodes[call.inode].later.append((call.offset, data))

    def _sync_folder(self, folder: str) -> None:
        for number in range(len(self._changes), self._durable, -1):
            change = self._changes[number - 1]
            paths = change.paths if isinstance(change, Call) else (change[0],)
            if any(os.path.dirname(path) == folder for path in paths if path):
                self._durable = number
                return

    def after_cut(self, rng: random.Random, target: Path) -> None:
        """Write to `target`, a new folder, what a cut at this moment may leave."""
        kept = rng.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        end = rng.choice((self._durable, len(self._changes), rng.randint(self._durable, len(self._changes))))
        names = dict(self.names)
        for change in self._changes[:end]:
            change_names(names, change)
        contents: dict[int, bytes] = {}
        target.mkdir(mode=0o700)
        for name, file in sorted(names.items()):
            path = target / os.path.relpath(name, self.root)
            if file is None:
                path.mkdir(mode=0o700, exist_ok=True)
            elif not name.endswith(VOLATILE) and path.parent.is_dir():
                if id(file) not in contents:
                    contents[id(file)] = file.after_cut(rng, kept)
                path.touch(mode=0o600)
                path.write_bytes(contents[id(file)])


def change_names(names: dict[str, TracedFile | None], change: Call | tuple[str, TracedFile]) -> None:
    """Apply a creation, a removal, a rename or a link."""
    if not isinstance(change, Call):
        names[change[0]] = change[1]
        return
    first, second = change.paths
    match change.kind:
        case "M":
            names[first] = None
        case "U" | "X":
            names.pop(first, None)
        case "L":
            names[second] = names[first]
        case "R":
            moved = [name for name in names if name == first or name.startswith(f"{first}/")]
            for name in moved:
                names[second + name.removeprefix(first)] = names.pop(name)
