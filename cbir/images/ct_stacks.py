"""Stacks of CT slices: those of a series that make one volume each, and why others are left out."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.images.slice_order import (
    PlacedSlice,
    common_directions,
    parallel_slices,
    positions_along,
    separate_passes,
)
from cbir.images.slice_place import SlicePlace
from cbir.images.volume import FEWEST_SLICES

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
