"""File of a collection's map: positions of its images in two dimensions, derived from the vectors beside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import CollectionDamaged
from cbir.store.base.permissions import file_mode
from cbir.system.atomic import atomic_binary

MAP_FILE = "map.npz"


@dataclass(frozen=True, eq=False)
class StoredMap:
    """Places of the images that a map was computed for.

    numbers: (n,) int64, ascending: image numbers. positions: (n, 2) float32, from -1 to 1. transform: text that names
    the profile and the fitted transform whose vectors were laid out.
    """

    numbers: NDArray[np.int64]
    positions: NDArray[np.float32]
    transform: str

    def __len__(self) -> int:
        return len(self.numbers)


def write_map(folder: Path, stored: StoredMap) -> None:
    """Write the map of the collection in `folder` atomically."""
    path = folder / MAP_FILE
    with atomic_binary(path, permissions=file_mode(folder)) as file:
        transform = np.frombuffer(stored.transform.encode(), np.uint8)
        np.savez(file, numbers=stored.numbers, positions=stored.positions, transform=transform)


def read_map(folder: Path) -> StoredMap | None:
    """Read the map of the collection in `folder`; None if there is none. Raises CollectionDamaged."""
    try:
        with (folder / MAP_FILE).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays: dict[str, NDArray[Any]] = {name: file[name] for name in file.files}
        stored = StoredMap(arrays["numbers"], arrays["positions"], arrays["transform"].tobytes().decode())
    except FileNotFoundError:
        return None
    except Exception as error:  # the parts of a damaged archive raise nearly anything
        raise CollectionDamaged(f"the map {MAP_FILE} cannot be read; {_MAP_AGAIN}") from error
    numbers, positions = stored.numbers, stored.positions
    fits = (
        numbers.dtype == np.int64
        and positions.dtype == np.float32
        and positions.shape == (len(numbers), 2)
        and bool((np.diff(numbers) > 0).all())
        and bool(np.isfinite(positions).all())
    )
    if not fits:
        raise CollectionDamaged(f"the map {MAP_FILE} is damaged; {_MAP_AGAIN}")
    return stored


def drop_map(folder: Path) -> None:
    """Delete the map of the collection in `folder`, if it has one."""
    (folder / MAP_FILE).unlink(missing_ok=True)


_MAP_AGAIN = "`cbir collection map` computes it again"
