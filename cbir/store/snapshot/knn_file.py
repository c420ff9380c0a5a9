"""File of the nearest neighbours of a snapshot's images: derived like the snapshot, stored beside it."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import CollectionDamaged
from cbir.gallery.knn import NEAREST, NearestNeighbours
from cbir.gallery.whitening import Space
from cbir.store.base.permissions import file_mode
from cbir.store.snapshot.snapshot import file_checksum
from cbir.system.files import atomic_binary

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
