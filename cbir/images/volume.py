"""Volumes: CT slices in Hounsfield units (HU), resampled to the grid that a network takes."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import UnreadableImage
from cbir.images.image import Image

AIR, DENSEST = -1000, 1000  # HU; voxels are limited to these, and outside the slices there is air
FEWEST_SLICES = 16
# Whether an axis grows to the patient's right, anterior and superior if its direction, in the coordinates of DICOM
# (left, posterior, superior), is positive
_GROWS = np.array([False, False, True])

Slice = NDArray[np.float32]


class VolumeGrid(NamedTuple):
    """Voxels of a network's input along the patient's axes: to the right, anterior and superior.

    shape: number of voxels. spacing: distance of their centres in mm.
    """

    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]


class StackGeometry(NamedTuple):
    """Geometry of parallel slices.

    columns, rows: size of a slice in pixels. spacing: in mm, of columns and of rows. positions: (n,) of the slices
    along their normal in mm, ascending. directions: (3, 3), of growing column, row and slice, in the patient's
    coordinates (left, posterior, superior).
    """

    columns: int
    rows: int
    spacing: tuple[float, float]
    positions: NDArray[np.float64]
    directions: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Volume(Image):
    """A volume beside its middle slice, which stands for it as a picture.

    voxels: int16 HU from AIR to DENSEST, (x, y, z), growing to the patient's right, anterior and superior.
    """

    voxels: NDArray[np.int16] = field(default_factory=lambda: np.empty((0, 0, 0), np.int16))

    @cached_property
    def content_hash(self) -> str:
        """BLAKE2b hash of the voxels, 32 hexadecimal digits; independent of the files and their order."""
        digest = hashlib.blake2b(repr(self.voxels.shape).encode(), digest_size=16)
        digest.update(np.ascontiguousarray(self.voxels).data)
        return digest.hexdigest()


def make_volume(slice_image: Image, voxels: NDArray[np.int16]) -> Volume:
    """Return the volume that `slice_image` is the middle slice of."""
    image = slice_image
    return Volume(
        image.pixels,
        image.source,
        image.format,
        image.frame,
        image.dicom,
        image.windowing,
        unusable=image.unusable,
        location=image.location,
        voxels=voxels,
    )


def resample_slices(
    read_slice: Callable[[int], Slice], geometry: StackGeometry, grid: VolumeGrid
) -> NDArray[np.int16]:
    """Resample slices linearly to a grid with the same centre; what lies outside of them is air.

    Only slices beside a plane of the grid are read, and two of them are in memory at a time.

    Parameters
    ----------
    read_slice : callable
        Returns a slice by its number: (rows, columns) float32 in HU.
    geometry : StackGeometry
        Sizes, positions and directions of the slices.
    grid : VolumeGrid
        Shape and spacing of the result.

    Returns
    -------
    (x, y, z) int16
        HU from AIR to DENSEST.

    Raises
    ------
    UnreadableImage
        If the slices lie too obliquely to say which of the patient's axes is which.
    """
    axes = [int(axis) for axis in np.abs(geometry.directions).argmax(axis=1)]
    if sorted(axes) != [0, 1, 2]:
        raise UnreadableImage("lies obliquely between the patient's axes; reformat it")
    across, down, through = axes
    columns = _grid_positions(geometry.columns, geometry.spacing[0], grid, across)
    rows = _grid_positions(geometry.rows, geometry.spacing[1], grid, down)
    positions = geometry.positions
    middle = (positions[0] + positions[-1]) / 2
    wanted = middle + _offsets(grid.shape[through]) * grid.spacing[through]
    at = np.interp(wanted, positions, np.arange(len(positions)))
    before, after = np.diff(positions)[[0, -1]] / 2  # a slice is as thick as its distance to the next
    inside = (wanted >= positions[0] - before) & (wanted <= positions[-1] + after)
    stack = np.full((len(wanted), len(rows), len(columns)), AIR, np.int16)
    cached: dict[int, Slice] = {}

    def plane(index: int) -> Slice:
        if index not in cached:
            if len(cached) > 1:
                del cached[min(cached)]
            values = _interpolate(read_slice(index), rows, 0)
            cached[index] = _interpolate(values, columns, 1)
        return cached[index]

    for number in np.flatnonzero(inside):
        first = int(at[number])
        share = np.float32(at[number] - first)
        values = plane(first)
        if share:
            values = values * (1 - share) + plane(first + 1) * share
        stack[number] = np.rint(np.clip(values, AIR, DENSEST))
    directions = geometry.directions[[2, 1, 0]]
    for axis, (to, direction) in enumerate(zip((through, down, across), directions, strict=True)):
        if (direction[to] > 0) != _GROWS[to]:
            stack = np.flip(stack, axis)
    return np.ascontiguousarray(stack.transpose(np.argsort((through, down, across))))


def _offsets(count: int) -> NDArray[np.float64]:
    """Return the distances of `count` grid points from their middle, in points."""
    return np.arange(count, dtype=np.float64) - (count - 1) / 2


def _grid_positions(count: int, spacing: float, grid: VolumeGrid, axis: int) -> NDArray[np.float64]:
    """Return where the grid's points lie on `count` pixels, in pixels."""
    step = grid.spacing[axis] / spacing
    return _offsets(grid.shape[axis]) * step + (count - 1) / 2


def _interpolate(values: Slice, at: NDArray[np.float64], axis: int) -> Slice:
    """Interpolate linearly along an axis; more than half a pixel outside there is air."""
    count = values.shape[axis]
    first = np.clip(np.floor(at).astype(int), 0, max(count - 2, 0))
    second = np.minimum(first + 1, count - 1)
    share = np.clip(at - first, 0, 1).astype(np.float32)
    outside = (at < -0.5) | (at > count - 0.5)
    shape = (-1, 1) if axis == 0 else (1, -1)
    share = share.reshape(shape)
    result = values.take(first, axis) * (1 - share) + values.take(second, axis) * share
    return np.where(outside.reshape(shape), np.float32(AIR), result)
