"""File of a snapshot's vectors in half precision: derived like the snapshot, stored beside it, read in place."""

from pathlib import Path

import faiss
import numpy as np

from cbir.errors import CollectionDamaged
from cbir.gallery.flat_index import FlatIndex
from cbir.store.base.permissions import file_mode
from cbir.store.snapshot.snapshot import file_checksum
from cbir.system.files import atomic_binary

WRITTEN = 1 << 20  # bytes written at a time


def write_half_index(path: Path, half: FlatIndex) -> str:
    """Write an index to `path` atomically and return the file's checksum."""
    with atomic_binary(path, permissions=file_mode(path.parent)) as file:
        faiss.write_index(half.index, faiss.PyCallbackIOWriter(file.write, WRITTEN))
    return file_checksum(path)


def read_half_index(path: Path, checksum: str, count: int, dimensions: int) -> FlatIndex:
    """Map a file that `write_half_index` wrote.

    Parameters
    ----------
    path : Path
        The file.
    checksum : str
        Its checksum; nothing of another file is read.
    count : int
        Images of the snapshot that it belongs to.
    dimensions : int
        Length of their vectors.

    Raises
    ------
    CollectionDamaged
        If the file is missing or has changed.
    """
    try:
        if file_checksum(path) != checksum:
            raise CollectionDamaged(f"the index {path.name} has changed since it was written")
        mapped = np.memmap(path, np.uint8, "r")
        reader = faiss.ZeroCopyIOReader(faiss.swig_ptr(mapped), mapped.size)
        index = faiss.read_index(reader)
    except (OSError, ValueError, RuntimeError) as error:
        raise CollectionDamaged(f"the index {path.name} cannot be read") from error
    if not isinstance(index, faiss.IndexScalarQuantizer) or (index.d, index.ntotal) != (dimensions, count):
        raise CollectionDamaged(f"the index {path.name} does not fit its snapshot")
    index.referenced_objects = [reader, mapped]  # its codes view them
    return FlatIndex(index)
