"""The images of which a submission is asked for."""

import os
from dataclasses import dataclass
from pathlib import Path

from cbir.datasets.irma import strip_zeros
from cbir.datasets.manifest import Manifest
from cbir.errors import InvalidInput, NotFound

SUFFIXES = {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".dcm"}


@dataclass(frozen=True)
class IrmaQuery:
    """One image; label: its true one as written, patient: the identifier, each "" where it is not known."""

    path: Path
    image_id: str
    label: str = ""
    patient: str = ""


def find_irma_queries(source: Path, key: str) -> list[IrmaQuery]:
    """The images of a manifest (csv with `path`, and irma_id unless files are named by it) or of a folder.

    key: the column with the true label. Raises InvalidInput where there is none, or two have the same id.
    """
    if source.is_dir():
        found = [IrmaQuery(path, strip_zeros(path.stem)) for path in _pictures(source)]
    elif source.is_file():
        found = _manifest(source, key)
    else:
        raise NotFound(f"there is no folder or manifest {source}")
    seen: dict[str, Path] = {}
    for query in found:
        if query.image_id in seen:
            raise InvalidInput(
                f"two images are called {query.image_id}: {seen[query.image_id]} and {query.path}"
            )
        seen[query.image_id] = query.path
    if not found:
        raise InvalidInput(f"{source} names no image")
    return found


def _pictures(folder: Path) -> list[Path]:
    return sorted(
        Path(place) / name
        for place, _, names in os.walk(folder)
        for name in names
        if Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")
    )


def _manifest(path: Path, key: str) -> list[IrmaQuery]:
    return [
        IrmaQuery(
            file,
            strip_zeros(labels.get("irma_id") or file.stem),
            labels.get(key, ""),
            labels.get("patient", ""),
        )
        for file, labels in Manifest(path).rows()
    ]
