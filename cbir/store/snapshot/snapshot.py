"""Snapshot: the vectors of a collection, one file in FAISS's flat format that is read in place.

A 46-byte preamble precedes the FAISS index, so that the vectors begin at a multiple of 64 bytes and BLAS can read
them from the mapped file; `tail -c +47 FILE` is a file that faiss.read_index opens. Beside it lie, derived likewise,
files of the vectors' codes and of the images' nearest neighbours.
"""

import hashlib
import mmap
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from cbir.errors import CollectionDamaged, access_denied, raise_when_denied
from cbir.gallery.code_index import CodeIndex
from cbir.gallery.flat_index import FlatIndex
from cbir.gallery.knn import NEAREST, NearestNeighbours
from cbir.gallery.vector_blocks import Space
from cbir.store.base.collection_folder import file_mode
from cbir.system.files import atomic_binary

READ_BYTES = 1 << 20

_blake2b = partial(hashlib.blake2b, digest_size=16)

PREAMBLE = b"cbir snapshot 1: a FAISS index follows".ljust(45) + b"\n"


class SnapshotInfo(BaseModel):
    """Description of a snapshot, see `stored_snapshot`.

    generation: of the collection when it was written. last_number: largest image number that it covers, even if that
    image was deleted. size: of the file, bytes. checksum: BLAKE2b of the file. neighbours_checksum: of the k-NN file;
    None if an older program wrote the snapshot without one. codes_checksum: of the vectors' codes; None
    without them. statistics_fingerprint: of the statistics beside the snapshot; None if the database has them.
    state: of the database when it was written, see `read_state`.
    """

    file: str
    generation: int
    images: int
    last_number: int
    size: int
    checksum: str
    neighbours_checksum: str | None = None
    codes_checksum: str | None = None
    statistics_fingerprint: str | None = None
    state: str | None = None

    @property
    def codes(self) -> str:
        """Name of the file of the vectors' codes beside the snapshot."""
        return str(Path(self.file).with_suffix(".codes"))

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the snapshot and the files beside it."""
        codes = (self.codes,) if self.codes_checksum else ()
        statistics = (self.statistics,) if self.statistics_fingerprint else ()
        return (self.file, self.neighbours, *codes, *statistics)

    @property
    def statistics(self) -> str:
        """Name of the file of statistics beside the snapshot."""
        return str(Path(self.file).with_suffix(".statistics"))

    @property
    def neighbours(self) -> str:
        """Name of the k-NN file beside the snapshot."""
        return str(Path(self.file).with_suffix(".neighbours"))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Open snapshot: `vectors` (n, d) float32 view the mapped file, `ids` (n,) int64 ascend.

    flat_index: over the same memory; its ids are rows.
    """

    vectors: NDArray[np.float32]
    ids: NDArray[np.int64]
    flat_index: FlatIndex


def allocate_index(count: int, dimensions: int) -> tuple[faiss.Index, NDArray[np.float32]]:
    """Return a flat FAISS index for `count` vectors, and its memory (count, dimensions) to fill."""
    flat = faiss.IndexFlatL2(dimensions)
    flat.codes.resize(count * dimensions * 4)
    flat.ntotal = count
    if not count:
        return flat, np.empty((0, dimensions), np.float32)
    return flat, faiss.rev_swig_ptr(flat.get_xb(), count * dimensions).reshape(count, dimensions)


def write_snapshot(path: Path, flat: faiss.Index, ids: NDArray[np.int64]) -> tuple[int, str]:
    """Write a flat index atomically.

    Parameters
    ----------
    path : Path
        Target.
    flat : faiss.IndexFlatL2
        Index of normalised vectors, from `allocate_index`.
    ids : (n,) int64
        Image numbers, ascending.

    Returns
    -------
    size : int
        Bytes of the file.
    checksum : str
        See `file_checksum`.
    """
    flat.ntotal = 0  # IndexIDMap insists on an empty index; the vectors stay where they are
    with_ids = faiss.IndexIDMap(flat)
    flat.ntotal = len(ids)
    faiss.copy_array_to_vector(np.ascontiguousarray(ids, np.int64), with_ids.id_map)
    with_ids.ntotal = len(ids)
    with atomic_binary(path, permissions=file_mode(path.parent)) as file:
        file.write(PREAMBLE)
        faiss.write_index(with_ids, faiss.PyCallbackIOWriter(file.write, 1 << 20))
    return path.stat().st_size, file_checksum(path)


def open_snapshot(path: Path, info: SnapshotInfo, dimensions: int) -> Snapshot:
    """Map a snapshot into memory.

    Parameters
    ----------
    path : Path
        The file.
    info : SnapshotInfo
        Its description.
    dimensions : int
        Length of a vector.

    Raises
    ------
    CollectionDamaged
        If the file does not match its description.
    AccessDenied
        If this process may not read it.
    """
    try:
        if path.stat().st_size != info.size:
            raise CollectionDamaged(f"the snapshot {path.name} does not have the size that was written")
        if _read_through(path, info.size) != info.checksum:
            raise CollectionDamaged(f"the snapshot {path.name} has changed since it was written")
        mapped = np.memmap(path, np.uint8, "r")
        if mapped[: len(PREAMBLE)].tobytes() != PREAMBLE:
            raise CollectionDamaged(f"{path.name} is not a snapshot")
        content = mapped[len(PREAMBLE) :]
        index = faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(content), content.size))
        flat = faiss.downcast_index(index.index)
        flat.referenced_objects = [index, mapped]  # it is a part of the one and views the other
        ids = faiss.vector_to_array(index.id_map)
        faiss.Int64Vector().swap(index.id_map)  # frees its own copy
    except PermissionError as error:
        raise access_denied(error, path) from error
    except (OSError, ValueError, RuntimeError, AttributeError) as error:
        raise CollectionDamaged(f"the snapshot {path.name} cannot be read") from error
    count = len(ids)
    if flat.d != dimensions or flat.ntotal != count or count != info.images or (np.diff(ids) <= 0).any():
        raise CollectionDamaged(f"the snapshot {path.name} does not fit its collection")
    if count == 0:
        return Snapshot(np.empty((0, dimensions), np.float32), ids, FlatIndex(flat))
    vectors = _mapped_vectors(mapped, flat)
    if not np.isfinite(np.vdot(vectors, vectors)):  # one damaged block would spoil every ranking
        raise CollectionDamaged(f"the snapshot {path.name} contains values that are not finite numbers")
    if hasattr(mmap, "MADV_DONTNEED"):  # searches read a part of a large one
        mapped._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
    return Snapshot(vectors, ids, FlatIndex(flat))


def _mapped_vectors(mapped: NDArray[np.uint8], flat: faiss.IndexFlatL2) -> NDArray[np.float32]:
    """Return the vectors of a flat index as a view of the file, which stays mapped as long as the view is used."""
    found = faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d)  # keeps neither index nor file
    first = found.ctypes.data - mapped.ctypes.data
    return np.asarray(mapped)[first : first + found.nbytes].view(np.float32).reshape(flat.ntotal, flat.d)


def _read_through(path: Path, size: int) -> str:
    """Read a file to its end and return its checksum; a bad sector raises OSError here, and ends a process later."""
    buffer, hashed = bytearray(READ_BYTES), hashlib.blake2b(digest_size=16)
    with path.open("rb", buffering=0) as file:
        while length := file.readinto(buffer):
            hashed.update(memoryview(buffer)[:length])
            size -= length
    if size:
        raise CollectionDamaged(f"the snapshot {path.name} is shorter or longer than it was written")
    return hashed.hexdigest()


def file_checksum(path: Path) -> str:
    """Return the BLAKE2b hash of a file, 32 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, _blake2b).hexdigest()


WRITTEN = 1 << 20  # bytes written at a time


def write_codes(path: Path, codes: faiss.Index) -> str:
    """Write the index of codes to `path` atomically and return the file's checksum."""
    with atomic_binary(path, permissions=file_mode(path.parent)) as file:
        faiss.write_index(codes, faiss.PyCallbackIOWriter(file.write, WRITTEN))
    return file_checksum(path)


def read_codes(path: Path, checksum: str, snapshot: Snapshot) -> CodeIndex:
    """Read a file that `write_codes` wrote into memory.

    Parameters
    ----------
    path : Path
        The file.
    checksum : str
        Its checksum; nothing of another file is read.
    snapshot : Snapshot
        Snapshot that it belongs to.

    Raises
    ------
    CollectionDamaged
        If the file is missing or has changed.
    """
    try:
        with raise_when_denied(path), path.open("rb") as file:
            if hashlib.file_digest(file, _blake2b).hexdigest() != checksum:
                raise CollectionDamaged(f"the codes {path.name} have changed since they were written")
            file.seek(0)
            codes = faiss.read_index(faiss.PyCallbackIOReader(file.read, READ_BYTES))
    except (OSError, RuntimeError, MemoryError) as error:
        raise CollectionDamaged(f"the codes {path.name} cannot be read") from error
    if (codes.ntotal, codes.d) != snapshot.vectors.shape:
        raise CollectionDamaged(f"the codes {path.name} do not fit their snapshot")
    return CodeIndex(snapshot.flat_index.flat, snapshot.vectors, codes)


_EMPTY = np.empty((0, 0), np.float32)  # stored for vectors that are compared as they are


def write_knn(path: Path, neighbours: NearestNeighbours) -> str:
    """Write `neighbours` to `path` atomically and return the file's checksum."""
    with atomic_binary(path, permissions=file_mode(path.parent)) as file:
        np.savez(
            file,
            centre=neighbours.space.centre,
            projection=_EMPTY if neighbours.space.projection is None else neighbours.space.projection,
            rows=neighbours.rows,
            squared=neighbours.squared,
            lengths=neighbours.lengths,
        )
    return file_checksum(path)


def read_knn(path: Path, count: int, dimensions: int) -> NearestNeighbours:
    """Read a file that `write_knn` wrote.

    Parameters
    ----------
    path : Path
        The file.
    count : int
        Images of the snapshot that it belongs to.
    dimensions : int
        Length of their vectors.

    Raises
    ------
    CollectionDamaged
        If the file cannot be read or does not fit the snapshot.
    """
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays: dict[str, NDArray[Any]] = {name: file[name] for name in file.files}
        projection = arrays["projection"]
        space = Space(arrays["centre"], projection if projection.size else None)
        neighbours = NearestNeighbours(space, arrays["rows"], arrays["squared"], arrays["lengths"])
    except PermissionError as error:
        raise access_denied(error, path) from error
    except Exception as error:  # the parts of a damaged archive raise nearly anything
        raise CollectionDamaged(f"the neighbours {path.name} cannot be read") from error
    fits = (
        neighbours.rows.shape == neighbours.squared.shape == (count, NEAREST)
        and neighbours.lengths.shape == (count,)
        and space.centre.shape == (dimensions,)
        and (space.projection is None or space.projection.shape == (dimensions, dimensions))
        and neighbours.rows.max(initial=-1) < count
    )
    if not fits:
        raise CollectionDamaged(f"the neighbours {path.name} do not fit their snapshot")
    return neighbours
