"""Files of a local index: numbers, checksums and vectors of its rows, a graph or inverted lists, and changes.

The vectors of deleted images are overwritten in place, so each row has a checksum of its own. A digest at the end
covers the header and the structure. Changes since have a file of their own, so that few changes write little.
"""

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.errors import CollectionDamaged, access_denied
from cbir.gallery.vector_blocks import Floats, Rows
from cbir.store.base.collection_folder import file_mode
from cbir.store.index.local_content import NO_IMAGE, FileRows, LocalContent, LocalKind
from cbir.store.index.port import IndexPosition, Numbers
from cbir.store.index.scope_numbers import random_keys
from cbir.system.files import atomic_binary
from cbir.system.ownership import open_or_create

FORMAT = 2

HEADER = 4096  # bytes

WRITTEN = 1 << 20  # bytes of the structure read at a time

PAGE = 16_384  # rows written or read at a time

DIGEST = 16  # bytes of the digest


@dataclass(frozen=True, eq=False)
class StoredIndex:
    """Content of the file, with its position. changes: number of the file of changes."""

    content: LocalContent
    position: IndexPosition
    changes: int


class _CheckedWriter:
    """Writes to a file, and computes the digest of what it has written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest = file, hashlib.blake2b(digest_size=DIGEST)

    def write(self, content: bytes) -> int:
        self._digest.update(content)
        return self._file.write(content)

    def end(self) -> None:
        self._file.write(self._digest.digest())


def stored_vectors(index: Any) -> Floats:
    """Return the vectors (rows, d) of an IndexHNSWFlat or IndexFlat: its memory, not a copy."""
    flat = faiss.downcast_index(index.storage if isinstance(index, faiss.IndexHNSW) else index)
    values = faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d)
    return values.reshape(flat.ntotal, flat.d)  # type: ignore[no-any-return]


def write_index_file(path: Path, stored: StoredIndex) -> None:
    """Write `path` atomically; its folder must exist. No second copy of the vectors is made in memory."""
    content, numbers = stored.content, stored.content.rows.numbers
    header = {
        "format": FORMAT,
        "position": stored.position,
        "rows": len(numbers),
        "dimensions": content.dimensions,
        "changes": stored.changes,
    }
    with atomic_binary(path, permissions=file_mode(path.parent)) as file:
        writer = _CheckedWriter(file)
        writer.write(json.dumps(header).encode().ljust(HEADER))
        file.write(numbers.astype("<i8").tobytes())
        for rows in _pages(len(numbers)):
            file.write(row_sums(numbers[rows], _values(content, rows)).tobytes())
        for rows in _pages(len(numbers)):
            file.write(_values(content, rows).astype("<f4", copy=False).tobytes())
        content.write_structure(writer)
        writer.end()


def _values(content: LocalContent, rows: slice) -> Floats:
    return content.values(np.arange(rows.start, min(rows.stop, len(content.rows))))


def overwrite_rows(path: Path, count: int, rows: Rows, vectors: Floats) -> None:
    """Overwrite vectors of deleted images in a file, durably. Other processes need not read the file again.

    Parameters
    ----------
    path : Path
    count : int
        Number of rows in the file.
    rows : (n,) int64
        Rows of the deleted images.
    vectors : (n, d) float32
        Put in place of their vectors.
    """
    size = 4 * vectors.shape[1]
    status = path.stat()
    with path.open("r+b", buffering=0) as file:
        # First the numbers: the checksum of a row without an image is not compared.
        for row in rows.tolist():
            file.seek(HEADER + 8 * row)
            file.write(np.int64(NO_IMAGE).astype("<i8").tobytes())
        os.fsync(file.fileno())
        for row, vector in zip(rows.tolist(), vectors, strict=True):
            file.seek(HEADER + 16 * count + size * row)
            file.write(vector.astype("<f4").tobytes())
        os.fsync(file.fileno())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # others have the deletions from the changes


def read_index_file(path: Path, kind: LocalKind) -> StoredIndex | None:
    """Read a file that `write_index_file` wrote; None if there is none. Raises CollectionDamaged."""
    try:
        with path.open("rb") as file:
            content = file.read(HEADER)
            header = json.loads(content)
            if header["format"] != FORMAT:
                raise CollectionDamaged(f"the index {path.name} was written by another version of cbir")
            count, dimensions = int(header["rows"]), int(header["dimensions"])
            structure_at = HEADER + count * (16 + 4 * dimensions)
            size = path.stat().st_size - DIGEST - structure_at
            _require_digest(file, path, content, structure_at, size)
            rows = _read_rows(file, path, count, dimensions)
            file.seek(structure_at)
            read = kind.read(rows, file, size)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise access_denied(error, path) from error
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise CollectionDamaged(f"the index {path.name} cannot be read") from error
    return StoredIndex(read, IndexPosition(*header["position"]), header["changes"])


def mapped_vectors(path: Path, count: int, dimensions: int) -> Floats:
    """Return the vectors (count, d) of a file, mapped privately: changing them leaves the file as it is."""
    if not count:
        return np.empty((0, dimensions), np.float32)
    mapped = np.memmap(path, "<f4", "c", HEADER + 16 * count, (count, dimensions))
    return mapped.view(np.ndarray)


def row_sums(numbers: Numbers, vectors: Floats) -> NDArray[np.uint64]:
    """Return a checksum (n,) of each row: of its number and its vector."""
    factors = random_keys(np.arange(vectors.shape[1])) | np.uint64(1)  # odd, so that no changed bit is lost
    words = np.ascontiguousarray(vectors, "<f4").view("<u4").astype(np.uint64)
    sums: NDArray[np.uint64] = words @ factors + random_keys(numbers)
    return sums.astype("<u8")


def _read_rows(file: BinaryIO, path: Path, count: int, dimensions: int) -> FileRows:
    file.seek(HEADER)
    numbers = np.frombuffer(file.read(8 * count), "<i8").astype(np.int64)
    sums = np.frombuffer(file.read(8 * count), "<u8")
    vectors = mapped_vectors(path, count, dimensions)

    def checked_pages() -> Iterator[tuple[slice, Floats]]:
        for rows in _pages(count):
            same = row_sums(numbers[rows], vectors[rows]) == sums[rows]
            if not (same | (numbers[rows] == NO_IMAGE)).all():
                raise _damage(path)
            yield rows, vectors[rows]

    return FileRows(numbers, vectors, checked_pages)


def _require_digest(file: BinaryIO, path: Path, header: bytes, structure_at: int, size: int) -> None:
    """Read header and structure; raise CollectionDamaged if they have changed since they were written."""
    digest = hashlib.blake2b(header, digest_size=DIGEST)
    file.seek(structure_at)
    left = size
    while left > 0 and (block := file.read(min(WRITTEN, left))):
        digest.update(block)
        left -= len(block)
    if left or file.read() != digest.digest():
        raise _damage(path)


def _damage(path: Path) -> CollectionDamaged:
    return CollectionDamaged(f"the index {path.name} has changed since it was written")


def _pages(count: int) -> Iterator[slice]:
    for start in range(0, count, PAGE):
        yield slice(start, start + PAGE)


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
        with open(open_or_create(self._path, os.O_RDWR, mode), "r+b") as file:
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
