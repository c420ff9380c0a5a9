"""Atomic writes of a study's files."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.store.base.damage import raise_when_full
from cbir.system.files import private_folder, write_bytes


def write_study_file(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically and durably; raise StorageFull on a full disk."""
    with raise_when_full(path.parent):
        private_folder(path.parent)
        write_bytes(path, content)


def write_arrays(path: Path, **arrays: ArrayLike) -> None:
    """Write named `arrays` to the npz file `path`, like `write_study_file`."""
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]  # numpy's other parameters have other types
    write_study_file(path, content.getvalue())


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays in `path` by name, without unpickling; raise ValueError if it is missing or damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(str(error)) from error
