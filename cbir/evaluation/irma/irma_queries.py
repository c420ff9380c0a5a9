"""Images to be classified in a submission."""

import os
from dataclasses import dataclass
from pathlib import Path

from cbir.errors import InvalidInput, NotFound
from cbir.evaluation.datasets.irma.codes import strip_zeros
from cbir.ingest.manifest import Manifest

SUFFIXES = {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".dcm"}


@dataclass(frozen=True)
class IrmaQuery:
    """One image.

    label: the true one as written; patient: the identifier; "" if unknown.
    """

    path: Path
    image_id: str
    label: str = ""
    patient: str = ""


def find_irma_queries(source: Path, key: str) -> list[IrmaQuery]:
    """Return the images of a manifest (csv with `path`, and irma_id unless it is the file name) or of a folder.

    `key` is the column with the true label. Raises InvalidInput if there is none, or two have the same id.
    """
    if source.is_dir():
        queries = [IrmaQuery(path, strip_zeros(path.stem)) for path in _find_images(source)]
    elif source.is_file():
        queries = _read_manifest(source, key)
    else:
        raise NotFound(f"there is no folder or manifest {source}")
    seen: dict[str, Path] = {}
    for query in queries:
        if query.image_id in seen:
            raise InvalidInput(
                f"two images have the id {query.image_id}: {seen[query.image_id]} and {query.path}"
            )
        seen[query.image_id] = query.path
    if not queries:
        raise InvalidInput(f"{source} contains no image")
    return queries


def _find_images(folder: Path) -> list[Path]:
    return sorted(
        Path(parent) / name
        for parent, _, names in os.walk(folder)
        for name in names
        if Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")
    )


def _read_manifest(path: Path, key: str) -> list[IrmaQuery]:
    return [
        IrmaQuery(
            file,
            strip_zeros(labels.get("irma_id") or file.stem),
            labels.get(key, ""),
            labels.get("patient", ""),
        )
        for file, labels in Manifest(path).rows()
    ]
