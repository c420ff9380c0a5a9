"""Files that are derived from a collection's images and dropped with a patient: the latest audit, the map, and cells.

The k-NN graphs of vector indexes are dropped too; `cbir.store.index.stored_neighbours` writes and builds them again.
"""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import CollectionDamaged, access_denied, raise_when_denied
from cbir.store.base.collection_folder import file_mode, folder_mode, update_sums, write_sums
from cbir.system.files import SUFFIX, atomic_binary, atomic_text
from cbir.system.ownership import make_folder

AUDIT_FILE = "audit.json"


def write_audit_file(folder: Path, text: str) -> None:
    """Write the audit, JSON in one line, of the collection in `folder` atomically, with its hash in a second line."""
    with atomic_text(folder / AUDIT_FILE, permissions=file_mode(folder)) as file:
        file.write(f"{text}\n{_hash(text)}\n")


def read_audit_file(folder: Path) -> str | None:
    """Read the audit of the collection in `folder`; None if there is none. Raises CollectionDamaged.

    Audits of earlier versions have no hash.
    """
    damaged = CollectionDamaged(f"{AUDIT_FILE} of {folder} is damaged; audit the collection again")
    try:
        with raise_when_denied(folder / AUDIT_FILE):
            content = (folder / AUDIT_FILE).read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise damaged from None
    text, separator, rest = content.partition("\n")
    if separator and rest != f"{_hash(text)}\n":
        raise damaged
    return text


def drop_audit_file(folder: Path) -> None:
    """Delete the audit of the collection in `folder`, if it has one."""
    (folder / AUDIT_FILE).unlink(missing_ok=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
    except PermissionError as error:
        raise access_denied(error, folder / MAP_FILE) from error
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

CELLS = "regions"

PROJECTION = "projection.npz"


@dataclass(frozen=True, eq=False)
class CellProjection:
    """Projection of an encoder's values for a cell: (values - mean) @ axes, scaled to length 1.

    mean: (c,) float32. axes: (c, d) float32. side: rows and columns of an image's cells.
    """

    mean: NDArray[np.float32]
    axes: NDArray[np.float32]
    side: int

    @property
    def record(self) -> np.dtype[np.void]:
        """The record of an image in the files: `number`, and `cells` (side, side, d), 127 for 1."""
        return np.dtype([("number", "<i8"), ("cells", "i1", (self.side, self.side, self.axes.shape[1]))])


@dataclass(frozen=True, eq=False)
class RegionCells:
    """Stored cells. parts: records of images, ascending by number in each part, mapped from the files."""

    projection: CellProjection
    parts: tuple[NDArray[np.void], ...]

    def numbers(self) -> NDArray[np.int64]:
        """Return the numbers (n,) of the images that have cells, ascending."""
        found = [part["number"] for part in self.parts]
        return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)


def write_projection(folder: Path, projection: CellProjection) -> None:
    """Begin the cells of the collection in `folder`; those that were there before are dropped."""
    drop_cells(folder)
    cells = folder / CELLS
    make_folder(cells, folder_mode(folder))
    with atomic_binary(cells / PROJECTION, permissions=file_mode(folder)) as file:
        np.savez(file, mean=projection.mean, axes=projection.axes, side=np.int64(projection.side))
    write_sums(cells, (PROJECTION,))


def write_part(folder: Path, records: NDArray[np.void]) -> None:
    """Write the cells of at least one further image atomically; `records` are of the projection's type."""
    path = folder / CELLS / f"{records['number'][0]:012d}.npy"
    update_sums(folder / CELLS, leave_out=(path.name,))
    with atomic_binary(path, permissions=file_mode(folder)) as file:
        np.save(file, records, allow_pickle=False)
    update_sums(folder / CELLS, written=(path.name,))


def keep_cells(folder: Path, numbers: NDArray[np.int64]) -> None:
    """Delete the cells of images other than `numbers`."""
    for path in _paths(folder):
        records = _load(path)
        kept = np.isin(records["number"], numbers)
        if kept.all():
            continue
        remaining = np.array(records[kept])
        del records  # Windows deletes no mapped file
        update_sums(folder / CELLS, leave_out=(path.name,))
        path.unlink()
        if len(remaining):
            write_part(folder, remaining)


def read_cells(folder: Path) -> RegionCells | None:
    """Return the cells of the collection in `folder`; None if there are none. Raises CollectionDamaged."""
    try:
        with (
            (folder / CELLS / PROJECTION).open("rb") as opened,
            np.load(opened, allow_pickle=False) as file,
        ):
            arrays: dict[str, NDArray[Any]] = {name: file[name] for name in ("mean", "axes", "side")}
        projection = CellProjection(arrays["mean"], arrays["axes"], int(arrays["side"]))
        sound = (
            projection.mean.dtype == projection.axes.dtype == np.float32
            and projection.axes.shape[:1] == projection.mean.shape
            and bool(np.isfinite(projection.axes).all() and np.isfinite(projection.mean).all())
        )
        parts = tuple(_load(path) for path in _paths(folder))
    except FileNotFoundError:
        return None
    except CollectionDamaged:
        raise
    except PermissionError as error:
        raise access_denied(error, folder / CELLS) from error
    except Exception as error:  # the parts of a damaged archive raise nearly anything
        raise CollectionDamaged(f"the cells in {CELLS} cannot be read; {_CELLS_AGAIN}") from error
    if not sound or any(part.dtype != projection.record or part.ndim != 1 for part in parts):
        raise CollectionDamaged(f"the cells in {CELLS} are damaged; {_CELLS_AGAIN}")
    return RegionCells(projection, parts)


def has_cells(folder: Path) -> bool:
    """Return whether the collection in `folder` has cells."""
    return (folder / CELLS / PROJECTION).is_file()


def drop_cells(folder: Path) -> None:
    """Delete the cells of the collection in `folder`, if it has any."""
    shutil.rmtree(folder / CELLS, ignore_errors=True)


def _paths(folder: Path) -> list[Path]:
    return sorted((folder / CELLS).glob("*.npy"))


def _load(path: Path) -> NDArray[np.void]:
    try:
        loaded: NDArray[np.void] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # as above
        raise CollectionDamaged(f"the cells {CELLS}/{path.name} cannot be read; {_CELLS_AGAIN}") from error
    return loaded


_CELLS_AGAIN = f"delete the folder {CELLS} of the collection and run `cbir collection regions` again"


def drop_neighbours(folder: Path) -> None:
    """Delete the graphs of the collection in `folder` on this machine: they have numbers of erased images."""
    for pattern in ("*.neighbours", f"*.neighbours{SUFFIX}"):  # and what a build that was killed left
        for path in (folder / "vector_index").glob(pattern):
            path.unlink(missing_ok=True)
