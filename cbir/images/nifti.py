"""NIfTI-1 and NIfTI-2 volumes, a slice at a time; headers are read by nibabel, of the extra `volume`.

A volume is turned to the patient's left, posterior and superior axes, as DICOM has them, and cut across its axis of
widest spacing, the plane it was acquired in; a volume of nearly equal spacings is cut into axial slices.
"""

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from gzip import GzipFile
from importlib.util import find_spec
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import UnreadableImage
from cbir.images.bit_depth import apply_window, percentiles
from cbir.images.image import DicomHeader, Image, Limits, ScaledValues, Window, Windowing, scale_values
from cbir.images.volume import (
    AIR,
    DENSEST,
    FEWEST_SLICES,
    StackGeometry,
    Volume,
    VolumeGrid,
    make_volume,
    resample_slices,
)
from cbir.system.remedies import install_command

SIZES = (348, 540)  # bytes of the headers of both versions
MAGICS = (b"n+1\0", b"n+2\0\r\n\x1a\n")
PAIRS = (b"ni1\0", b"ni2\0\r\n\x1a\n")  # headers of volumes in another file
GZIP = b"\x1f\x8b"
CHUNK_BYTES = 2**20  # inflated at a time
MOST_SAMPLED = 2**20  # voxels that the window is computed from
THICK = 1.5  # ratio of spacings from which slices are thick
MOST_OF_AIR = -200  # HU; every CT volume has values below
AXIAL = 2  # of the axes left, posterior, superior


def is_nifti(data: bytes) -> bool:
    """Return whether a file is a NIfTI volume, also a compressed one or the header of a pair."""
    head = _head(data)
    return head[344:348] in (MAGICS[0], PAIRS[0]) or head[4:12] in (MAGICS[1], PAIRS[1])


def decode_nifti(
    data: bytes, name: str, limits: Limits, window: Window | None = None, keep_values: bool = False
) -> Iterator[Image]:
    """Decode the slices of a volume.

    Parameters
    ----------
    data : bytes
        A .nii or .nii.gz file.
    name : str
        Source of the images, for messages.
    limits : Limits
        Largest slice, number of slices, and size of the file once inflated.
    window : (float, float), optional
        Center and width instead of the range from the 1st to the 99th percentile of the volume.
    keep_values : bool
        Keep the values of the slices beside their pixels.

    Yields
    ------
    Image
        One image per slice: of axial ones the lowest first, with the patient's right on the left and anterior at the
        top. UIDs are made from the content.

    Raises
    ------
    UnreadableImage
        If the volume cannot be read, has several channels or times, or exceeds the limits.
    """
    voxels = _open(data, limits)
    windowing = _window(voxels, window)
    for index in range(voxels.stored.shape[voxels.axis]):
        image = _image(voxels, index, name, windowing)
        yield replace(image, values=_values(voxels, index, windowing)) if keep_values else image


def decode_nifti_volume(data: bytes, name: str, limits: Limits, grid: VolumeGrid) -> Volume:
    """Decode a CT volume to the grid of a network.

    Parameters
    ----------
    data : bytes
        A .nii or .nii.gz file in Hounsfield units.
    name : str
        Source of the volume, for messages.
    limits : Limits
        As for `decode_nifti`.
    grid : VolumeGrid
        Shape and spacing of the voxels.

    Raises
    ------
    UnreadableImage
        As `decode_nifti` does, and if the values are not those of CT.
    """
    voxels = _open(data, limits)
    windowing = _window(voxels, None)
    if windowing.least > MOST_OF_AIR:
        raise UnreadableImage(
            f"has no value below {windowing.least:g}, so it is not CT in Hounsfield units (air is -1000); convert it"
        )
    columns, rows, count = voxels.stored.shape
    if min(columns, rows, count) < FEWEST_SLICES:
        raise UnreadableImage(
            f"has {columns} x {rows} x {count} voxels; a volume needs {FEWEST_SLICES} slices"
        )
    spacing = voxels.spacing
    geometry = StackGeometry(
        columns, rows, (spacing[0], spacing[1]), np.arange(count) * spacing[2], np.eye(3)
    )

    def read_slice(index: int) -> NDArray[np.float32]:
        values = _scaled(voxels.stored[:, :, index].T, voxels.rescaling)
        return np.nan_to_num(values, nan=AIR, posinf=DENSEST, neginf=AIR).astype(np.float32)

    middle = voxels.stored.shape[voxels.axis] // 2
    return make_volume(_image(voxels, middle, name, windowing), resample_slices(read_slice, geometry, grid))


class _Voxels(NamedTuple):
    """Stored values turned to the patient's axes, their spacings in mm, slope and intercept.

    axis: that slices are cut across. uids: made from the content.
    """

    stored: NDArray[Any]
    spacing: NDArray[np.float64]
    rescaling: tuple[float, float]
    axis: int
    uids: DicomHeader


def _open(data: bytes, limits: Limits) -> _Voxels:
    if find_spec("nibabel") is None:
        raise UnreadableImage(f"is a NIfTI volume, which needs nibabel: {install_command('volume')}")
    header = _read_header(_head(data))
    shape, dtype, offset = _check_size(header, limits)
    needed = offset + int(np.prod(shape)) * dtype.itemsize
    content = (
        _inflated(data, needed + 1) if data.startswith(GZIP) else data
    )  # one more, to check its checksum
    if len(content) < needed:
        raise UnreadableImage("is truncated; copy or export it again")
    stored = np.frombuffer(content, dtype, int(np.prod(shape)), offset).reshape(shape, order="F")
    stored, spacing = _turn(stored, header.get_best_affine())
    axis = int(np.argmax(spacing)) if spacing.max() > THICK * spacing.min() else AXIAL
    slope, intercept = header.get_slope_inter()
    rescaling = (1.0 if slope is None else slope), (intercept or 0.0)
    height, width = _plane(stored, axis, 0).shape
    limits.check_frame(width, height, dtype.itemsize)
    limits.check_frames(stored.shape[axis])
    return _Voxels(stored, spacing, rescaling, axis, _uids(memoryview(content)[:needed]))


def _image(voxels: _Voxels, index: int, name: str, windowing: Windowing) -> Image:
    pixels = _pixels(_plane(voxels.stored, voxels.axis, index), voxels.rescaling, windowing)
    frame = index + 1 if voxels.stored.shape[voxels.axis] > 1 else None
    height, width = (axis for axis in (AXIAL, 1, 0) if axis != voxels.axis)
    spacing = float(voxels.spacing[height]), float(voxels.spacing[width])
    count = voxels.stored.shape[voxels.axis]
    return Image(pixels, name, "nifti", frame, voxels.uids, windowing, count, spacing)


def _head(data: bytes) -> bytes:
    """Return the first bytes of a file, inflated."""
    if not data.startswith(GZIP):
        return data[: SIZES[1]]
    try:
        return bytes(_inflated(data, SIZES[1]))
    except (OSError, zlib.error):
        return b""


def _inflated(data: bytes, size: int) -> bytearray:
    """Return the first `size` bytes of a gzip file, of all its members; fewer if it has no more."""
    content = bytearray()
    with GzipFile(fileobj=BytesIO(data)) as file, suppress(EOFError):
        while len(content) < size and (chunk := file.read1(min(CHUNK_BYTES, size - len(content)))):
            content += chunk
    return content


def _read_header(head: bytes) -> Any:
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header

    if head[344:348] == PAIRS[0] or head[4:12] == PAIRS[1]:
        raise UnreadableImage("is the header of a NIfTI pair (.hdr, .img); save the volume as one .nii file")
    kind = Nifti1Header if head[344:348] == MAGICS[0] else Nifti2Header
    return kind(head[: kind.sizeof_hdr], check=False)


def _check_size(header: Any, limits: Limits) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return shape (columns, rows, slices), type and offset of the voxels, which the header gives."""
    shape = [int(side) for side in header.get_data_shape()]
    while len(shape) > 3 and shape[-1] == 1:
        shape.pop()
    text = " x ".join(map(str, shape))
    if len(shape) > 3:
        raise UnreadableImage(f"has {text} values, several times or channels; split it into volumes")
    if len(shape) < 2 or min(shape) < 1:
        raise UnreadableImage(f"declares {text or 'no'} voxels, an empty volume; export it again")
    shape += [1] * (3 - len(shape))
    dtype = header.get_data_dtype()
    if dtype.kind not in "iuf":
        raise UnreadableImage("has voxels that are not single numbers (colours, complex); convert it to grey")
    offset, size = int(header["vox_offset"]), int(np.prod([float(side) for side in shape])) * dtype.itemsize
    if offset < 0 or offset + size > limits.bytes:
        raise UnreadableImage(f"declares {text} voxels; volumes of at most {limits.bytes} bytes are read")
    return tuple(shape), dtype, offset


def _turn(stored: NDArray[Any], affine: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Turn a volume to the axes left, posterior, superior; return a view of it and its spacings."""
    from nibabel.affines import voxel_sizes
    from nibabel.orientations import apply_orientation, axcodes2ornt, io_orientation, ornt_transform

    spacing = np.ones(3)
    if np.isfinite(affine).all():
        axes = io_orientation(affine)
        if np.isfinite(axes).all():
            turn = ornt_transform(axes, axcodes2ornt(("L", "P", "S")))
            spacing[turn[:, 0].astype(int)] = voxel_sizes(affine)
            stored = apply_orientation(stored, turn)
    return stored, spacing


def _plane(stored: NDArray[Any], axis: int, index: int) -> NDArray[Any]:
    """Return one slice (rows, columns); of sagittal and coronal ones the head is at the top."""
    plane: NDArray[Any] = stored[(slice(None),) * axis + (index,)].T  # numpy.take would copy the whole volume
    return plane if axis == AXIAL else plane[::-1]


def _scaled(values: NDArray[Any], rescaling: tuple[float, float]) -> NDArray[np.float64]:
    slope, intercept = rescaling
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float64) * slope + intercept


def _window(voxels: _Voxels, window: Window | None) -> Windowing:
    """Return the window of a volume, from evenly spread voxels; those that are not finite do not count."""
    step = int(np.ceil((voxels.stored.size / MOST_SAMPLED) ** (1 / 3)))
    sampled = _scaled(voxels.stored[::step, ::step, ::step], voxels.rescaling)
    sampled = sampled[np.isfinite(sampled)]
    if not len(sampled):
        raise UnreadableImage("has no voxel that is a finite number; export it again")
    low, high = percentiles(sampled)
    center, width = window or ((low + high) / 2, high - low)
    return Windowing(center, width, float(sampled.min()), float(sampled.max()))


def _pixels(plane: NDArray[Any], rescaling: tuple[float, float], windowing: Windowing) -> NDArray[np.uint8]:
    """Return a slice in a window; voxels that are no numbers become black."""
    low, high = windowing.center - windowing.width / 2, windowing.center + windowing.width / 2
    values = np.nan_to_num(_scaled(plane, rescaling), nan=low, posinf=high, neginf=low)
    return np.ascontiguousarray(apply_window(values, low, high))


def _values(voxels: _Voxels, index: int, windowing: Windowing) -> ScaledValues:
    """Return the values of a slice; voxels that are no numbers have the least."""
    values = _scaled(_plane(voxels.stored, voxels.axis, index), voxels.rescaling)
    least, greatest = windowing.least, windowing.greatest
    return scale_values(np.nan_to_num(values, nan=least, posinf=greatest, neginf=least))


def _uids(content: memoryview) -> DicomHeader:
    """Return UIDs made from the content of a file (PS3.5, B.2)."""
    digest = hashlib.blake2b(content, digest_size=16).digest()

    def uid(level: str) -> str:
        number = hashlib.blake2b(digest, digest_size=16, person=level.encode()).digest()
        return f"2.25.{int.from_bytes(number, 'big')}"

    return DicomHeader(study=uid("study"), series=uid("series"), instance=uid("instance"))
