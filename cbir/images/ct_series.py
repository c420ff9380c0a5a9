"""CT series: slices read by their headers, and volumes from them."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import UnreadableImage
from cbir.images.ct_stacks import CtPlane, CtSlice, stack_slices
from cbir.images.dicom_dataset import frame_count, integer, parse_dataset, read_header
from cbir.images.dicom_decoder import decode_dicom
from cbir.images.dicom_frames import stored_frames
from cbir.images.dicom_place import read_slice_place
from cbir.images.grey_transforms import FrameHeader, modality_values
from cbir.images.limits import Limits
from cbir.images.nifti import decode_nifti_volume, is_nifti
from cbir.images.reading import is_out_of_memory, recognise_format
from cbir.images.stored_values import read_pixel_format
from cbir.images.suppress_logs import suppress_decoder_logs
from cbir.images.volume import (
    AIR,
    StackGeometry,
    Volume,
    VolumeGrid,
    make_volume,
    resample_slices,
)

KEYWORDS = (
    "SOPClassUID", "Modality", "ImageType", "SeriesInstanceUID", "SOPInstanceUID", "ImageOrientationPatient",
    "ImagePositionPatient", "PixelSpacing", "Rows", "Columns", "NumberOfFrames", "InstanceNumber",
    "AcquisitionNumber", "AcquisitionDate", "AcquisitionTime", "AcquisitionDateTime", "TemporalPositionIdentifier",
    "TemporalPositionIndex", "TriggerTime", "NominalCardiacTriggerDelayTime",
)  # fmt: skip

ReadBytes = Callable[[Path], bytes]


@dataclass(frozen=True)
class CtSeries:
    """Files of one volume.

    paths: of slices, in the order of their `positions` along the normal in mm; or of one NIfTI file, without
    positions and plane. shown: slice that stands for the series, the middle one if None.
    """

    paths: tuple[Path, ...]
    positions: tuple[float, ...] = ()
    plane: CtPlane | None = None
    shown: Path | None = None

    @property
    def source(self) -> Path:
        """File of the slice that stands for the series."""
        return self.shown or self.paths[len(self.paths) // 2]


@dataclass(frozen=True)
class FoundSeries:
    """Volumes among files, and reasons why the other files are not in one; one for each file."""

    series: list[CtSeries]
    refused: list[tuple[Path, str]]


def find_series(paths: Iterable[Path], limits: Limits, read_bytes: ReadBytes) -> FoundSeries:
    """Group files to volumes by their headers; every NIfTI file is a volume, and every pass of a CT series.

    Parameters
    ----------
    paths : iterable of Path
        Files, in any order.
    limits : Limits
        Largest file.
    read_bytes : callable
        Returns the content of a file, or raises UnreadableImage or OSError.
    """
    slices: dict[str, list[CtSlice]] = defaultdict(list)
    found = FoundSeries([], [])
    for path in paths:
        try:
            data = read_bytes(path)
            if is_nifti(data):
                found.series.append(CtSeries((path,)))
                continue
            uid, ct_slice = _read_slice(path, data, limits)
            slices[uid].append(ct_slice)
        except UnreadableImage as error:
            found.refused.append((path, str(error)))
        except OSError as error:
            found.refused.append((path, f"cannot be read: {error.strerror or error}"))
    for members in slices.values():
        stacks, left_out = stack_slices(members)
        found.series.extend(
            CtSeries(tuple(each.path for each in stack.slices), stack.positions, stack.plane)
            for stack in stacks
        )
        found.refused.extend(left_out)
    found.series.sort(key=lambda series: series.source)
    return found


def read_volume(series: CtSeries, limits: Limits, grid: VolumeGrid, read_bytes: ReadBytes) -> Volume:
    """Decode a series to the grid of a network.

    Parameters
    ----------
    series : CtSeries
        Files, from `find_series`.
    limits : Limits
        Largest file and slice.
    grid : VolumeGrid
        Shape and spacing of the voxels.
    read_bytes : callable
        As in `find_series`.

    Raises
    ------
    UnreadableImage
        If a slice cannot be decoded; the message names its file.
    """
    plane, path = series.plane, series.source

    def read_slice(index: int) -> NDArray[np.float32]:
        nonlocal path
        path = series.paths[index]
        return _read_hounsfield(read_bytes(path), limits, series)

    try:
        with suppress_decoder_logs():
            data = read_bytes(path)
            if plane is None:
                return decode_nifti_volume(data, path.name, limits, grid)
            image = next(decode_dicom(data, path.name, limits))
            spacing = plane.spacing[1], plane.spacing[0]
            positions = np.array(series.positions)
            geometry = StackGeometry(plane.columns, plane.rows, spacing, positions, plane.directions)
            return make_volume(image, resample_slices(read_slice, geometry, grid))
    except UnreadableImage as error:
        raise UnreadableImage(f"{path.name} {error}") from error
    except (OSError, MemoryError):
        raise
    except Exception as error:  # decoders raise anything on damaged data, and may quote patient data
        if is_out_of_memory(error):
            raise
        raise UnreadableImage(f"{path.name} is damaged; copy or export it again") from None


def _read_slice(path: Path, data: bytes, limits: Limits) -> tuple[str, CtSlice]:
    """Return the series of a CT slice, and what its header says of its place."""
    if recognise_format(data) != "dicom":
        raise UnreadableImage("is no CT slice or NIfTI volume, and the collection is of CT series")
    try:
        with suppress_decoder_logs():
            header = read_header(data, limits, KEYWORDS)
            modality = str(header.get("Modality") or "unknown")[:16]
            kinds = [str(kind).upper() for kind in header.get("ImageType") or ()]
            uid, instance = (
                str(header.get(keyword) or "")[:64] for keyword in ("SeriesInstanceUID", "SOPInstanceUID")
            )
            frames = frame_count(header)
            location, spacing = read_slice_place(header), _numbers(header, "PixelSpacing", 2)
            is_turned = header.get("ImageOrientationPatient") is not None and location.orientation is None
            rows, columns = integer(header, "Rows", 0), integer(header, "Columns", 0)
    except UnreadableImage:
        raise
    except Exception as error:  # pydicom raises anything on damaged data sets
        if is_out_of_memory(error):
            raise
        raise UnreadableImage("is a damaged DICOM file; copy or export it again") from None
    if modality != "CT":
        raise UnreadableImage(f"is of modality {modality}, and the collection is of CT series")
    if "LOCALIZER" in kinds:
        raise UnreadableImage("is a localizer, no slice of a volume")
    if frames > 1:
        raise UnreadableImage(
            "has several frames in one file; export the series as single slices, or as NIfTI"
        )
    if is_turned or (spacing is not None and min(spacing) <= 0):
        raise UnreadableImage("has an orientation or pixel spacing that cannot be; export the series again")
    if not uid or location.orientation is None or location.position is None or spacing is None:
        raise UnreadableImage(
            "has no series, position, orientation or pixel spacing; export the series again"
        )
    return uid, CtSlice(path, instance, location, (spacing[0], spacing[1]), rows, columns)


def _numbers(header: Any, keyword: str, count: int) -> list[float] | None:
    values = header.get(keyword)
    if values is None or isinstance(values, str) or len(values) != count:
        return None
    numbers = [float(value) for value in values]
    return numbers if np.isfinite(numbers).all() else None


def _read_hounsfield(data: bytes, limits: Limits, series: CtSeries) -> NDArray[np.float32]:
    """Return the values of a slice in HU: (rows, columns)."""
    dataset = parse_dataset(data, limits)
    stored, pixel_format = next(stored_frames(dataset))[0], read_pixel_format(dataset)
    assert series.plane is not None
    if stored.shape != (series.plane.rows, series.plane.columns):
        raise UnreadableImage("has another size than its header said; export the series again")
    values = modality_values(stored, FrameHeader(dataset, 0, pixel_format))
    return np.nan_to_num(values.astype(np.float32), copy=False, nan=AIR)
