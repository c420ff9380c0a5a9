"""Folders of phantoms and of drawn CT series, with their manifests."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom import Dataset, dcmwrite, uid
from pydicom.dataset import FileMetaDataset

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.phantoms.body_volume import (
    FIELD,
    NO_LESION,
    SLICE_DISTANCE,
    SeriesFacts,
    check_slices,
    draw_series,
    series_facts,
)
from cbir.evaluation.datasets.phantoms.dicom_encoding import FIRST_DAY, encode_dicom, phantom_uid
from cbir.evaluation.datasets.phantoms.drawing import check_side, draw_phantom, phantom_facts
from cbir.images.scaling import encode_image
from cbir.system.files import PUBLIC_FILE, csv_text, os_errors, write_bytes

SUFFIX = {"png": ".png", "dicom": ".dcm"}

COLUMNS = ("path", "label", "irma_code", "patient", "modality", "anatomy", "view")

RECIPE = "phantoms.json"


def write_phantoms(
    folder: Path,
    count: int,
    *,
    format: str = "png",
    seed: int = 0,
    size: int = 256,
    on_progress: Callable[[int], None] | None = None,
) -> Path:
    """Write phantoms 0 to count - 1 as phantom-000000.png (or .dcm), and their manifest last.

    Files are complete or absent, and existing ones stay: repeat an interrupted call to continue it.

    Parameters
    ----------
    folder : Path
        Folder, created if needed.
    count : int
        Number of phantoms, at least 1.
    format : {"png", "dicom"}
        Format of the files.
    seed : int
        Seed of the patients, at least 0.
    size : int
        Pixels of the longer side, 32 to 4096.
    on_progress : callable, optional
        Called after every image with their number so far.

    Returns
    -------
    Path
        The manifest, `manifest.csv`.

    Raises
    ------
    InvalidInput
        For a value out of range, or a folder that cannot be written or holds phantoms of other settings.
    """
    check_numbers(count, seed, "phantom")
    if format not in SUFFIX:
        raise InvalidInput(f"format {format!r} is unknown: png or dicom")
    check_side(size)
    folder = Path(folder)
    with writable_folder(folder, {"format": format, "seed": seed, "size": size}):
        for index in range(count):
            path = folder / f"phantom-{index:06d}{SUFFIX[format]}"
            if not path.exists():
                phantom = draw_phantom(index, seed, size)
                png = format == "png"
                data = encode_image(phantom.pixels, ".png") if png else encode_dicom(phantom, index, seed)
                write_file(path, data)
            if on_progress is not None:
                on_progress(index + 1)
        manifest = folder / "manifest.csv"
        write_file(manifest, _manifest(count, seed, SUFFIX[format]).encode())
    return manifest


def check_numbers(count: int, seed: int, drawn: str) -> None:
    """Raise InvalidInput for a negative seed, or a count below 1 of what is `drawn`."""
    if count < 1:
        raise InvalidInput(f"count {count} is too small: at least 1 {drawn}")
    if seed < 0:
        raise InvalidInput(f"seed {seed} must not be negative")


@contextmanager
def writable_folder(folder: Path, recipe: dict[str, str | int]) -> Iterator[None]:
    """Write into a folder of phantoms; raises InvalidInput if it holds others, or cannot be written.

    Parameters
    ----------
    folder : Path
        Folder, created if needed.
    recipe : dict
        Settings of the phantoms, which the folder keeps.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file; name a folder to write the phantoms into")
    with os_errors(f"the phantoms cannot be written into {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        _check_recipe(folder, recipe)
        yield


def _check_recipe(folder: Path, recipe: dict[str, str | int]) -> None:
    """Store the settings of the phantoms, or compare them with those stored."""
    path = folder / RECIPE
    if not path.exists():
        write_file(path, json.dumps(recipe).encode())
        return
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        stored = "unknown settings"
    if stored != recipe:
        raise InvalidInput(f"{folder} holds phantoms of {stored}, not {recipe}; name another folder")


def _manifest(count: int, seed: int, suffix: str) -> str:
    rows: list[Sequence[str]] = [COLUMNS]
    for index in range(count):
        facts = phantom_facts(index, seed)
        name = f"phantom-{index:06d}{suffix}"
        rows.append((name, facts.label, facts.code, facts.patient, facts.modality, facts.anatomy, facts.view))
    return csv_text(rows)


def write_file(path: Path, data: bytes) -> None:
    """Write a file that is complete or absent."""
    # Not durable: a phantom that a power cut takes is drawn again.
    write_bytes(path, data, permissions=PUBLIC_FILE, suffix=f".{os.getpid()}.partial", durable=False)


MAX_VOXELS = 2**26  # of a series, which is drawn as a whole in some 20 bytes for each

BODY_PART = {"chest": "CHEST", "abdomen": "ABDOMEN", "pelvis": "PELVIS", "head": "HEAD"}

SERIES_COLUMNS = (
    "path", "label", "patient", "modality", "anatomy", "series", "slice", "series_lesion",
    "lesion_slice", "lesion_mm", "body_z",
)  # fmt: skip


def write_phantom_series(
    folder: Path,
    count: int,
    *,
    seed: int = 0,
    size: int = 128,
    slices: int = 24,
    on_progress: Callable[[int], None] | None = None,
) -> Path:
    """Write CT series 0 to count - 1, a folder of DICOM files each, and their manifest last.

    Files are complete or absent, and existing ones stay: repeat an interrupted call to continue it.

    Parameters
    ----------
    folder : Path
        Folder, created if needed.
    count : int
        Number of series, at least 1; two consecutive ones are of one patient.
    seed : int
        Seed of the patients, at least 0.
    size : int
        Pixels per side, 32 to 4096.
    slices : int
        Slices of a series, 1 to 200, with at most MAX_VOXELS pixels in all.
    on_progress : callable, optional
        Called after every series with their number so far.

    Returns
    -------
    Path
        The manifest, `manifest.csv`.

    Raises
    ------
    InvalidInput
        For a value out of range, or a folder that cannot be written or holds phantoms of other settings.
    """
    check_numbers(count, seed, "series")
    check_side(size)
    check_slices(slices)
    if slices * size**2 > MAX_VOXELS:
        raise InvalidInput(
            f"{slices} slices of {size} x {size} pixels are too large a series: at most {MAX_VOXELS} voxels"
        )
    folder = Path(folder)
    with writable_folder(folder, {"format": "series", "seed": seed, "size": size, "slices": slices}):
        for number in range(count):
            _write_series(folder, number, seed, size, slices)
            if on_progress is not None:
                on_progress(number + 1)
        manifest = folder / "manifest.csv"
        write_file(manifest, _series_manifest(count, seed, size, slices).encode())
    return manifest


def slice_path(number: int, index: int) -> str:
    """Return the path of slice `index` of series `number` below the folder."""
    return f"series-{number:05d}/slice-{index + 1:03d}.dcm"


def _write_series(folder: Path, number: int, seed: int, size: int, slices: int) -> None:
    paths = [folder / slice_path(number, index) for index in range(slices)]
    if all(path.exists() for path in paths):
        return
    paths[0].parent.mkdir(exist_ok=True)
    series = draw_series(number, seed, slices, size)
    for index, path in enumerate(paths):
        if not path.exists():
            write_file(path, encode_slice(series, series.voxels[index], index, seed))


def encode_slice(facts: SeriesFacts, plane: NDArray[np.int16], index: int, seed: int) -> bytes:
    """Encode a slice as a DICOM file, the same bytes for the same arguments (CT Image, PS3.3 A.3).

    Parameters
    ----------
    facts : SeriesFacts
        Ground truth of the series.
    plane : (size, size) int16
        Densities in HU.
    index : int
        Index of the slice in the series.
    seed : int
        Seed of the patients; UIDs depend on it.
    """
    ds = Dataset()
    number, side = int(facts.patient.rpartition("-")[2]), len(plane)
    names = (seed, facts.patient, facts.visit, side, len(facts.positions))
    day = (FIRST_DAY + timedelta(days=number % 1500 + 200 * facts.visit)).strftime("%Y%m%d")
    ds.SOPClassUID = uid.CTImageStorage
    ds.SOPInstanceUID = phantom_uid("slice", *names, index)
    ds.StudyInstanceUID, ds.SeriesInstanceUID = series_uids(facts, seed, side)
    ds.FrameOfReferenceUID = phantom_uid("frame", *names)
    ds.PatientName, ds.PatientID = f"PHANTOM^{facts.patient}", facts.patient
    ds.PatientBirthDate = ds.PatientSex = ds.AccessionNumber = ds.ReferringPhysicianName = ""
    ds.StudyDate = ds.SeriesDate = ds.AcquisitionDate = ds.ContentDate = day
    ds.StudyTime = ds.SeriesTime = ds.AcquisitionTime = ds.ContentTime = "120000"
    ds.StudyID, ds.SeriesNumber, ds.AcquisitionNumber = str(facts.visit + 1), "1", "1"
    ds.InstanceNumber = str(index + 1)
    ds.StudyDescription = ds.SeriesDescription = f"Phantom {facts.region}"
    ds.Modality, ds.Manufacturer, ds.BodyPartExamined = "CT", "cbir phantoms", BODY_PART[facts.region]
    ds.ImageType, ds.KVP, ds.PositionReferenceIndicator = ["DERIVED", "PRIMARY", "AXIAL"], "120", ""
    spacing = FIELD / side
    ds.PixelSpacing, ds.SliceThickness = [f"{spacing:.8g}"] * 2, f"{SLICE_DISTANCE:g}"
    ds.PatientPosition, ds.ImageOrientationPatient = "HFS", [1, 0, 0, 0, 1, 0]
    corner = f"{(spacing - FIELD) / 2:.8g}"
    ds.ImagePositionPatient = [corner, corner, f"{index * SLICE_DISTANCE:.8g}"]
    ds.Rows = ds.Columns = side
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 12, 11, 0
    ds.RescaleIntercept, ds.RescaleSlope, ds.RescaleType = "-1024", "1", "HU"
    ds.WindowCenter, ds.WindowWidth = "100", "1400"
    ds.BurnedInAnnotation, ds.LossyImageCompression = "NO", "00"
    ds.PixelData = (plane + 1024).astype("<u2").tobytes()
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian
    file = BytesIO()
    dcmwrite(file, ds, enforce_file_format=True)
    return file.getvalue()


def series_uids(facts: SeriesFacts, seed: int, size: int) -> tuple[str, str]:
    """Return Study and Series Instance UID of a series.

    Parameters
    ----------
    facts : SeriesFacts
        Ground truth of the series.
    seed, size : int
        Seed of the patients, and pixels per side.
    """
    names = (seed, facts.patient, facts.visit, size, len(facts.positions))
    return phantom_uid("study", *names), phantom_uid("series", *names)


def _series_manifest(count: int, seed: int, size: int, slices: int) -> str:
    rows: list[Sequence[Any]] = [SERIES_COLUMNS]
    for number in range(count):
        facts = series_facts(number, seed, slices)
        series = series_uids(facts, seed, size)[1]
        middle, diameter = "", ""
        if facts.lesion is not None:
            distances = np.abs(np.array(facts.positions) - facts.lesion.centre[2])
            middle, diameter = str(int(distances.argmin()) + 1), f"{2 * facts.lesion.radius:.1f}"
        for index, (position, shows) in enumerate(zip(facts.positions, facts.shows, strict=True)):
            label = facts.kind if shows else NO_LESION
            truth = (facts.kind, middle, diameter, f"{position:.1f}")
            row = (label, facts.patient, "CT", facts.region, series, index + 1, *truth)
            rows.append((slice_path(number, index), *row))
    return csv_text(rows)
