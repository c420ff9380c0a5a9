"""A collection of phantoms and CT slices as DICOM, with pictures among them that are not."""

import shutil
from pathlib import Path

import pytest
from pydicom import Dataset, dcmread

from cbir.evaluation.datasets.phantoms import write_phantoms
from tests.indexer.receiving import file_of, slices
from tests.service.conftest import cbir, made_once

SLICES = 6  # of each of two series of CT, of one patient

_cache: list[tuple[Path, list[Dataset]]] = []


def make(temporary: pytest.TempPathFactory) -> tuple[Path, list[Dataset]]:
    """The collection's folder, not to be changed, and its CT slices; made once for all tests."""
    if not _cache:
        made = made_once(temporary, "dicom", _build)
        folder = shutil.copytree(made / "collection", temporary.mktemp("dicom") / "collection")
        _cache.append((Path(folder), [dcmread(made / "images" / f"{n}.dcm") for n in range(2 * SLICES)]))
    return _cache[0]


def _build(folder: Path) -> None:
    images = folder / "images"
    write_phantoms(images / "phantoms", 20, format="dicom", size=64)
    write_phantoms(images / "pictures", 4, format="png", size=64, seed=9)
    ct = [item for seed in (1, 2) for item in slices(SLICES, 48, seed=seed)]
    for number, item in enumerate(ct):
        (images / f"{number}.dcm").write_bytes(file_of(item))
    cbir("index", images, "--collection", folder / "collection", "--jobs", "1", "--profile", "huang2012")


def dicom_with_name() -> bytes:
    """Return a DICOM file with a patient's name and identifier."""
    (item,) = slices(1, 48, seed=77)
    item.PatientName, item.PatientID = "Doe^Jane", "4711"
    return file_of(item)
