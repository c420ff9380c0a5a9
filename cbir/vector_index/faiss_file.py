"""File of a local index: header, image numbers and FAISS index, with a checksum at its end."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import faiss
import numpy as np

from cbir.atomic import atomic_binary
from cbir.errors import CollectionDamaged
from cbir.store.permissions import file_mode
from cbir.vector_index.port import IndexPosition, Numbers

FORMAT = 1
WRITTEN = 1 << 20  # bytes written or read at a time
DIGEST = 16  # bytes of the checksum


@dataclass(frozen=True, eq=False)
class StoredIndex:
    """Content of the file. numbers: (rows,) int64, the image of each row. changes: number of the file of changes."""

    index: Any
    numbers: Numbers
    position: IndexPosition
    changes: int


class _CheckedWriter:
    """Writes to a file, and computes the checksum of what it has written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest = file, hashlib.blake2b(digest_size=DIGEST)

    def write(self, content: bytes) -> int:
        self._digest.update(content)
        return self._file.write(content)

    def end(self) -> None:
        self._file.write(self._digest.digest())


def write_index_file(path: Path, stored: StoredIndex) -> None:
    """Write `path` atomically; its folder must exist."""
    header = {
        "format": FORMAT,
        "position": stored.position,
        "rows": len(stored.numbers),
        "changes": stored.changes,
    }
    with atomic_binary(path, permissions=file_mode(path.parent)) as file:
        writer = _CheckedWriter(file)
        writer.write(json.dumps(header).encode() + b"\n")
        writer.write(stored.numbers.astype("<i8").tobytes())
        faiss.write_index(stored.index, faiss.PyCallbackIOWriter(writer.write, WRITTEN))
        writer.end()


def read_index_file(path: Path) -> StoredIndex | None:
    """Read a file that `write_index_file` wrote; None if there is none. Raises CollectionDamaged."""
    try:
        with path.open("rb") as file:
            _require_checksum(file, path)
            file.seek(0)
            header = json.loads(file.readline())
            if header["format"] != FORMAT:
                raise CollectionDamaged(f"the index {path.name} was written by another version of cbir")
            numbers = np.frombuffer(file.read(8 * header["rows"]), "<i8").astype(np.int64)
            index = faiss.read_index(faiss.PyCallbackIOReader(file.read, WRITTEN))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise CollectionDamaged(f"the index {path.name} cannot be read") from error
    return StoredIndex(index, numbers, IndexPosition(*header["position"]), header["changes"])


def _require_checksum(file: BinaryIO, path: Path) -> None:
    """Read the whole file; raise CollectionDamaged if it has changed since it was written."""
    left = path.stat().st_size - DIGEST
    digest = hashlib.blake2b(digest_size=DIGEST)
    while left > 0 and (block := file.read(min(WRITTEN, left))):
        digest.update(block)
        left -= len(block)
    if left or file.read() != digest.digest():
        raise CollectionDamaged(f"the index {path.name} has changed since it was written")
