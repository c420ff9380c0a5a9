"""CT series: slices grouped by their headers, and volumes read from them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import UnreadableImage
from cbir.images.dicom_dataset import frame_count, integer, parse_dataset, read_header
from cbir.images.dicom_decoder import decode_dicom
from cbir.images.dicom_frames import stored_frames
from cbir.images.grey_transforms import FrameHeader, modality_values
from cbir.images.limits import Limits
from cbir.images.nifti import decode_nifti_volume, is_nifti
from cbir.images.reading import is_out_of_memory, recognise_format
from cbir.images.stored_values import read_pixel_format
from cbir.images.suppress_logs import suppress_decoder_logs
from cbir.images.volume import (
    AIR,
    FEWEST_SLICES,
    StackGeometry,
    Volume,
    VolumeGrid,
    make_volume,
    resample_slices,
)

MOST_SLICES = 10_000
WIDEST_GAP = 30.0  # mm between neighbouring slices
SAME_PLACE = 1e-3  # mm
KEYWORDS = (
    "SOPClassUID", "Modality", "ImageType", "SeriesInstanceUID", "ImageOrientationPatient", "ImagePositionPatient",
    "PixelSpacing", "Rows", "Columns", "NumberOfFrames",
)  # fmt: skip

ReadBytes = Callable[[Path], bytes]


class _Plane(NamedTuple):
    """Geometry that the slices of one stack share: direction cosines, mm between rows and columns, rows, columns."""

    orientation: tuple[float, ...]
    spacing: tuple[float, float]
    rows: int
    columns: int

    @property
    def directions(self) -> NDArray[np.float64]:
        """Directions of growing column, row and slice: (3, 3)."""
        across, down = np.array(self.orientation[:3]), np.array(self.orientation[3:])
        return np.stack([across, down, np.cross(across, down)])


@dataclass(frozen=True)
class CtSeries:
    """Files of one volume.

    paths: of slices, in the order of their `positions` along the normal in mm; or of one NIfTI file, without
    positions and plane. shown: slice that stands for the series, the middle one if None.
    """

    paths: tuple[Path, ...]
    positions: tuple[float, ...] = ()
    plane: _Plane | None = None
    shown: Path | None = None

    @property
    def source(self) -> Path:
        """File of the slice that stands for the series."""
        return self.shown or self.paths[len(self.paths) // 2]


@dataclass(frozen=True)
class FoundSeries:
    """CT series among files, and reasons why the other files are not in one; one for each file."""

    series: list[CtSeries]
    refused: list[tuple[Path, str]]


def find_series(paths: Iterable[Path], limits: Limits, read_bytes: ReadBytes) -> FoundSeries:
    """Group files to volumes by their headers; every NIfTI file is a volume.

    Parameters
    ----------
    paths : iterable of Path
        Files, in any order.
    limits : Limits
        Largest file.
    read_bytes : callable
        Returns the content of a file, or raises UnreadableImage or OSError.
    """
    slices: dict[str, list[tuple[Path, _Plane, float]]] = defaultdict(list)
    found = FoundSeries([], [])
    for path in paths:
        try:
            data = read_bytes(path)
            if is_nifti(data):
                found.series.append(CtSeries((path,)))
                continue
            uid, plane, position = _read_slice_header(data, limits)
            slices[uid].append((path, plane, position))
        except UnreadableImage as error:
            found.refused.append((path, str(error)))
        except OSError as error:
            found.refused.append((path, f"cannot be read: {error.strerror or error}"))
    for members in slices.values():
        try:
            found.series.append(_order(members))
        except UnreadableImage as error:
            found.refused.extend((path, str(error)) for path, _, _ in members)
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


def _read_slice_header(data: bytes, limits: Limits) -> tuple[str, _Plane, float]:
    """Return the series of a CT slice, its plane, and its position along the normal."""
    if recognise_format(data) != "dicom":
        raise UnreadableImage("is no CT slice or NIfTI volume, and the collection is of CT series")
    try:
        with suppress_decoder_logs():
            header = read_header(data, limits, KEYWORDS)
            modality = str(header.get("Modality") or "unknown")[:16]
            kinds = [str(kind).upper() for kind in header.get("ImageType") or ()]
            uid = str(header.get("SeriesInstanceUID") or "")[:64]
            frames = frame_count(header)
            orientation, position, spacing = (
                _numbers(header, keyword, count)
                for keyword, count in (
                    ("ImageOrientationPatient", 6), ("ImagePositionPatient", 3), ("PixelSpacing", 2),
                )
            )  # fmt: skip
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
    if not uid or orientation is None or position is None or spacing is None:
        raise UnreadableImage(
            "has no series, position, orientation or pixel spacing; export the series again"
        )
    plane = _Plane(tuple(np.round(orientation, 4).tolist()), (spacing[0], spacing[1]), rows, columns)
    if not np.allclose(plane.directions @ plane.directions.T, np.eye(3), atol=0.01) or min(spacing) <= 0:
        raise UnreadableImage("has an orientation or pixel spacing that cannot be; export the series again")
    return uid, plane, float(np.dot(plane.directions[2], position))


def _numbers(header: Any, keyword: str, count: int) -> list[float] | None:
    values = header.get(keyword)
    if values is None or isinstance(values, str) or len(values) != count:
        return None
    numbers = [float(value) for value in values]
    return numbers if np.isfinite(numbers).all() else None


def _order(members: list[tuple[Path, _Plane, float]]) -> CtSeries:
    """Order the slices of a series; those of another plane than most, or at the place of another, are left out."""
    plane, _ = Counter(plane for _, plane, _ in members).most_common(1)[0]
    ordered = sorted((position, path) for path, other, position in members if other == plane)
    kept = ordered[:1]
    for position, path in ordered[1:]:
        if position - kept[-1][0] > SAME_PLACE:
            kept.append((position, path))
    if not FEWEST_SLICES <= len(kept) <= MOST_SLICES:
        raise UnreadableImage(
            f"belongs to a series of {len(kept)} slices here; a volume needs {FEWEST_SLICES} to {MOST_SLICES}"
        )
    gap = max(after[0] - before[0] for before, after in pairwise(kept))
    if gap > WIDEST_GAP:
        raise UnreadableImage(f"belongs to a series with a gap of {gap:.0f} mm; copy the missing slices too")
    return CtSeries(tuple(path for _, path in kept), tuple(position for position, _ in kept), plane)


def _read_hounsfield(data: bytes, limits: Limits, series: CtSeries) -> NDArray[np.float32]:
    """Return the values of a slice in HU: (rows, columns)."""
    dataset = parse_dataset(data, limits)
    stored, pixel_format = next(stored_frames(dataset))[0], read_pixel_format(dataset)
    assert series.plane is not None
    if stored.shape != (series.plane.rows, series.plane.columns):
        raise UnreadableImage("has another size than its header said; export the series again")
    values = modality_values(stored, FrameHeader(dataset, 0, pixel_format.signed))
    return np.nan_to_num(values.astype(np.float32), copy=False, nan=AIR)
