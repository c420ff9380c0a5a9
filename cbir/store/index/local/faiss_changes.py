"""File of the changes to a local index since its own file was written, so that few changes write little."""

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cbir.gallery.vector_blocks import Floats
from cbir.store.base.permissions import file_mode
from cbir.store.index.port import IndexPosition, Numbers

PUT, DELETE, POSITION = b"P", b"D", b"S"
CHANGE_HEADER = struct.Struct("<cI")  # kind of the change, bytes that follow
CHANGE_DIGEST = 8  # bytes of the checksum behind each change

Change = tuple[Numbers, Floats] | Numbers | IndexPosition


class ChangeFile:
    """Changes in their order, each with a checksum; one process appends, others may read meanwhile.

    end: byte behind the last change that was read or appended.
    """

    def __init__(self, path: Path, dimensions: int) -> None:
        self._path, self._dimensions = path, dimensions
        self.end = 0

    def has_more(self) -> bool:
        """Return whether another process has appended, perhaps only a part of a change."""
        return self.size() > self.end

    def size(self) -> int:
        """Return the size of the file, 0 if there is none."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def read(self) -> Iterator[Change]:
        """Read the changes that follow, up to one that is incomplete or damaged."""
        if not self.has_more():
            return
        with self._path.open("rb") as file:
            file.seek(self.end)
            while len(header := file.read(CHANGE_HEADER.size)) == CHANGE_HEADER.size:
                kind, length = CHANGE_HEADER.unpack(header)
                content = file.read(length)
                if len(content) < length or file.read(CHANGE_DIGEST) != _digest(header + content):
                    return
                self.end = file.tell()
                yield self._change(kind, content)

    def append_put(self, numbers: Numbers, vectors: Floats) -> None:
        """Append images that are added or replaced."""
        self._append(PUT, _put_content(numbers, vectors))

    def append_delete(self, numbers: Numbers) -> None:
        """Append images that are deleted."""
        self._append(DELETE, numbers.astype("<i8").tobytes())

    def append_position(self, position: IndexPosition) -> None:
        """Append a position; once this returns, it and everything before are durable."""
        self._append(POSITION, json.dumps(position).encode(), durable=True)

    def overwrite(self, numbers: Numbers) -> None:
        """Overwrite the vectors of deleted images with zeros, in place.

        A crash on the way leaves a change whose checksum is wrong: it and what follows count as not written.
        """
        byte_offset = 0
        if not len(numbers) or not self.size():
            return
        with self._path.open("r+b") as file:
            while byte_offset < self.end:
                file.seek(byte_offset)
                header = file.read(CHANGE_HEADER.size)
                kind, length = CHANGE_HEADER.unpack(header)
                if kind == PUT:
                    content = file.read(length)
                    put, vectors = self._put(content)
                    deleted = np.isin(put, numbers)
                    if deleted.any():
                        vectors[deleted] = 0
                        file.seek(byte_offset)
                        file.write(_with_digest(PUT, _put_content(put, vectors)))
                byte_offset += CHANGE_HEADER.size + length + CHANGE_DIGEST
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        """Delete the file, if there is one."""
        self._path.unlink(missing_ok=True)
        self.end = 0

    def _append(self, kind: bytes, content: bytes, durable: bool = False) -> None:
        written = _with_digest(kind, content)
        mode = file_mode(self._path.parent)
        with open(os.open(self._path, os.O_RDWR | os.O_CREAT, mode), "r+b") as file:
            file.truncate(self.end)  # what a killed process left unfinished
            file.seek(self.end)
            file.write(written)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        self.end += len(written)

    def _change(self, kind: bytes, content: bytes) -> Change:
        if kind == POSITION:
            return IndexPosition(*json.loads(content))
        if kind == DELETE:
            return np.frombuffer(content, "<i8").astype(np.int64)
        return self._put(content)

    def _put(self, content: bytes) -> tuple[Numbers, Floats]:
        count = len(content) // (8 + 4 * self._dimensions)
        numbers = np.frombuffer(content, "<i8", count).astype(np.int64)
        vectors = np.frombuffer(content, "<f4", offset=8 * count).astype(np.float32)
        return numbers, vectors.reshape(count, self._dimensions)


def _put_content(numbers: Numbers, vectors: Floats) -> bytes:
    return numbers.astype("<i8").tobytes() + vectors.astype("<f4").tobytes()


def _with_digest(kind: bytes, content: bytes) -> bytes:
    written = CHANGE_HEADER.pack(kind, len(content)) + content
    return written + _digest(written)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHANGE_DIGEST).digest()
