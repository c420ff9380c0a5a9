"""File of a local index: header, image numbers, checksums and vectors of the rows, and a graph or inverted lists.

The vectors of deleted images are overwritten in place, so each row has a checksum of its own. A digest at the end
covers the header and the structure.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.errors import CollectionDamaged
from cbir.gallery.vector_blocks import Floats, Rows
from cbir.store.base.permissions import file_mode
from cbir.store.index.local.fixed_sample import random_keys
from cbir.store.index.local.local_content import FileRows, LocalContent, LocalKind
from cbir.store.index.local.numbered_rows import NO_IMAGE
from cbir.store.index.port import IndexPosition, Numbers
from cbir.system.files import atomic_binary

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
