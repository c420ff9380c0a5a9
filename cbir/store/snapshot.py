"""The derived index of a collection: one file, FAISS's flat format, read in place.

A 46-byte preamble stands before what FAISS writes, so that the vectors begin at a multiple of 64 bytes
and BLAS can read them from the mapped file; `tail -c +47 FILE` is a file that faiss.read_index opens.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from cbir.atomic import atomic_binary
from cbir.errors import CollectionDamaged

PREAMBLE = b"cbir snapshot 1: a FAISS index follows".ljust(45) + b"\n"


class SnapshotInfo(BaseModel):
    """What the collection remembers of its snapshot.

    generation: of the collection when it was made. last_number: the greatest image number it covers, even
    where that image was deleted. size: of the file, bytes. checksum: BLAKE2b of the file.
    neighbours_checksum: of the file of neighbours; None where an older program made the snapshot, without one.
    """

    file: str
    generation: int
    images: int
    last_number: int
    size: int
    checksum: str
    neighbours_checksum: str | None = None

    @property
    def neighbours(self) -> str:
        """The file of neighbours that lies beside the snapshot."""
        return str(Path(self.file).with_suffix(".neighbours"))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """An open snapshot: `vectors` (n, d) float32 view the mapped file, `ids` (n,) int64 ascend.

    index: the FAISS index (IndexIDMap over IndexFlatL2) over the same memory.
    """

    vectors: NDArray[np.float32]
    ids: NDArray[np.int64]
    index: faiss.Index
    mapped: NDArray[np.uint8]


def allocate(count: int, dimensions: int) -> tuple[faiss.Index, NDArray[np.float32]]:
    """A flat FAISS index with room for `count` vectors, and its storage (count, dimensions) to fill."""
    flat = faiss.IndexFlatL2(dimensions)
    flat.codes.resize(count * dimensions * 4)
    flat.ntotal = count
    if not count:
        return flat, np.empty((0, dimensions), np.float32)
    return flat, faiss.rev_swig_ptr(flat.get_xb(), count * dimensions).reshape(count, dimensions)


def write(path: Path, flat: faiss.Index, ids: NDArray[np.int64]) -> tuple[int, str]:
    """Write a flat index and its image numbers: complete and on the disk, or not at all. (size, checksum)."""
    flat.ntotal = 0  # IndexIDMap insists on an empty index; the vectors stay where they are
    with_ids = faiss.IndexIDMap(flat)
    flat.ntotal = len(ids)
    faiss.copy_array_to_vector(np.ascontiguousarray(ids, np.int64), with_ids.id_map)
    with_ids.ntotal = len(ids)
    with atomic_binary(path) as file:
        file.write(PREAMBLE)
        faiss.write_index(with_ids, faiss.PyCallbackIOWriter(file.write, 1 << 20))
    return path.stat().st_size, file_checksum(path)


def open_snapshot(path: Path, info: SnapshotInfo, dimensions: int) -> Snapshot:
    """Map a snapshot into memory. Raises CollectionDamaged where the file is not what `info` says."""
    try:
        if path.stat().st_size != info.size:
            raise CollectionDamaged(f"the snapshot {path.name} has another size than was written")
        mapped = np.memmap(path, np.uint8, "r")
        if mapped[: len(PREAMBLE)].tobytes() != PREAMBLE:
            raise CollectionDamaged(f"{path.name} is not a snapshot")
        inside = mapped[len(PREAMBLE) :]
        index = faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(inside), inside.size))
        flat = faiss.downcast_index(index.index)
        ids = faiss.vector_to_array(index.id_map)
    except (OSError, ValueError, RuntimeError, AttributeError) as error:
        raise CollectionDamaged(f"the snapshot {path.name} cannot be read") from error
    count = len(ids)
    if flat.d != dimensions or flat.ntotal != count or count != info.images or (np.diff(ids) <= 0).any():
        raise CollectionDamaged(f"the snapshot {path.name} does not fit its collection")
    if count == 0:
        return Snapshot(np.empty((0, dimensions), np.float32), ids, index, mapped)
    vectors = faiss.rev_swig_ptr(flat.get_xb(), count * dimensions).reshape(count, dimensions)
    vectors.flags.writeable = False
    if not np.isfinite(vectors.sum(dtype=np.float64)):  # one damaged block would spoil every ranking
        raise CollectionDamaged(f"the snapshot {path.name} holds values that are not finite numbers")
    return Snapshot(vectors, ids, index, mapped)


def file_checksum(path: Path) -> str:
    """BLAKE2b of a file, 32 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
