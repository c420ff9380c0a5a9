"""CT series: slices read by their headers, stacks of those that make one volume each, and the volumes."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import UnreadableImage
from cbir.images.image import Limits
from cbir.images.nifti import decode_nifti_volume, is_nifti
from cbir.images.reading import is_out_of_memory, name_failure, recognise_format, suppress_decoder_logs
from cbir.images.slice_order import (
    PlacedSlice,
    SlicePlace,
    common_directions,
    parallel_slices,
    positions_along,
    separate_passes,
)
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

SAME_SPACING = 1e-3  # mm between pixels: half a millimetre over a slice of 512

ENOUGH = f"a volume needs {FEWEST_SLICES} to {MOST_SLICES}"

REPEATED = "has the SOP Instance UID of another file, which is used"

UNCERTAIN = (
    "belongs to a series with several slices at one place, which neither acquisition numbers nor times tell apart; "
    "export each pass as a series of its own"
)

SAME_PLACE = "lies at the place of another slice of its series, which is used"

LeftOut = list[tuple[Path, str]]


class CtSlice(NamedTuple):
    """A slice as its header describes it. uid: SOP Instance UID. spacing: of rows and of columns, mm."""

    path: Path
    uid: str
    location: SlicePlace
    spacing: tuple[float, float]
    rows: int
    columns: int


class CtPlane(NamedTuple):
    """Geometry that the slices of one stack share.

    directions: (3, 3), of growing column, row and slice. spacing: mm between rows and between columns.
    """

    directions: NDArray[np.float64]
    spacing: tuple[float, float]
    rows: int
    columns: int


class CtStack(NamedTuple):
    """Slices of one volume, in the order of their positions along the normal, in mm."""

    slices: tuple[CtSlice, ...]
    positions: tuple[float, ...]
    plane: CtPlane


def stack_slices(slices: Sequence[CtSlice]) -> tuple[list[CtStack], LeftOut]:
    """Separate the slices of one series into volumes: by orientation, pixels, and passes at the same places.

    Parameters
    ----------
    slices : sequence of CtSlice
        All slices of the series, in any order.

    Returns
    -------
    stacks : list of CtStack
        Those that make a volume.
    left_out : list of (Path, str)
        Every other file, with the reason.
    """
    members, left_out = _without_repeated(sorted(slices))
    placed = [PlacedSlice(member.location, member.uid) for member in members]
    stacks: list[CtStack] = []
    groups = [
        group
        for parallel in parallel_slices(placed)
        for group in _same_pixels([members[index] for index in parallel], parallel)
    ]
    for group in groups:
        passes, certain = separate_passes(placed, group)
        if not certain:
            rest = passes[1:]
            reason = UNCERTAIN if max(map(len, rest), default=0) >= FEWEST_SLICES else SAME_PLACE
            refused = group if reason == UNCERTAIN else [index for part in rest for index in part]
            left_out += [(members[index].path, reason) for index in refused]
            passes = [] if reason == UNCERTAIN else passes[:1]
        for part in passes:
            directions = common_directions(placed, part)
            stack = [members[index] for index in part]
            positions = positions_along(placed, part, directions[2])
            if reason := _reason_against(positions, len(stack) == len(members)):
                left_out += [(member.path, reason) for member in stack]
                continue
            plane = CtPlane(directions, stack[0].spacing, stack[0].rows, stack[0].columns)
            stacks.append(CtStack(tuple(stack), tuple(positions), plane))
    return stacks, left_out


def _without_repeated(slices: Sequence[CtSlice]) -> tuple[list[CtSlice], LeftOut]:
    """Return the slices without those that repeat an instance, and these with the reason."""
    members: list[CtSlice] = []
    left_out: LeftOut = []
    seen: set[str] = set()
    for each in slices:
        if each.uid and each.uid in seen:
            left_out.append((each.path, REPEATED))
            continue
        seen.add(each.uid)
        members.append(each)
    return members, left_out


def _same_pixels(slices: Sequence[CtSlice], indices: Sequence[int]) -> Iterator[list[int]]:
    """Yield those of the `indices` whose slices have pixels of one size, and as many of them."""
    left = list(zip(slices, indices, strict=True))
    while left:
        first = left[0][0]
        same = [
            each.rows == first.rows
            and each.columns == first.columns
            and np.allclose(each.spacing, first.spacing, rtol=0, atol=SAME_SPACING)
            for each, _ in left
        ]
        yield [index for (_, index), is_same in zip(left, same, strict=True) if is_same]
        left = [each for each, is_same in zip(left, same, strict=True) if not is_same]


def _reason_against(positions: Sequence[float], is_whole: bool) -> str:
    """Return why slices at ascending positions make no volume, "" if they do; is_whole: the series has no others."""
    count = len(positions)
    if not FEWEST_SLICES <= count <= MOST_SLICES:
        if is_whole:
            return f"belongs to a series of {count} slices here; {ENOUGH}"
        others = "that differ from the others of its series in orientation, pixels or acquisition"
        return f"is one of {count} slices {others}; {ENOUGH}"
    gap = max(after - before for before, after in pairwise(positions))
    if gap > WIDEST_GAP:
        return f"belongs to a series with a gap of {gap:.0f} mm; copy the missing slices too"
    return ""


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
            found.refused.append((path, name_failure(error)))
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
    from cbir.images.dicom_decoder import decode_dicom  # imports pydicom, as below

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
    from cbir.images.dicom_dataset import frame_count, integer, read_header
    from cbir.images.dicom_facts import read_slice_place

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
    from cbir.images.dicom_dataset import parse_dataset
    from cbir.images.dicom_frames import stored_frames
    from cbir.images.grey_transforms import FrameHeader, modality_values
    from cbir.images.stored_values import read_pixel_format

    dataset = parse_dataset(data, limits)
    stored, pixel_format = next(stored_frames(dataset))[0], read_pixel_format(dataset)
    assert series.plane is not None
    if stored.shape != (series.plane.rows, series.plane.columns):
        raise UnreadableImage("has another size than its header said; export the series again")
    values = modality_values(stored, FrameHeader(dataset, 0, pixel_format))
    return np.nan_to_num(values.astype(np.float32), copy=False, nan=AIR)
