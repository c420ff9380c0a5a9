"""The places of a series' slices, as their headers say, their order, and its passes: one stack after another."""

import json
import math
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

DAY = 86_400_000  # milliseconds

CYCLE = 2**24 * DAY  # in which stored times are counted, as days of studies are

FARTHEST = 1e6  # mm; beyond that a position is no place


@dataclass(frozen=True)
class SlicePlace:
    """Place of a frame in its series; None where the header does not say.

    position: of the first pixel, mm (left, posterior, superior; PS3.3, C.7.6.2.1.1). orientation: direction
    cosines of a row and of a column. instance, acquisition: their numbers. time: of the acquisition, milliseconds of
    its day, or since the year 1 where the date is known; stored without it, see `cbir.store.records.records`.
    temporal: number of the temporal position. trigger: milliseconds since the last heart beat.
    """

    position: tuple[float, ...] | None = None
    orientation: tuple[float, ...] | None = None
    instance: int | None = None
    acquisition: int | None = None
    time: int | None = None
    temporal: int | None = None
    trigger: float | None = None

    def to_text(self) -> str:
        """Return the place as `from_text` reads it."""
        return json.dumps(astuple(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the place that `to_text` wrote; an unknown one for another text."""
        try:
            position, orientation, *numbers = json.loads(text)
            return cls(finite_vector(position, 3), finite_vector(orientation, 6), *map(_number, numbers))
        except (TypeError, ValueError, RecursionError):
            return cls()


def finite_vector(values: Any, count: int, digits: int | None = None) -> tuple[float, ...] | None:
    """Return `count` finite numbers, rounded to `digits`; None for anything else."""
    if values is None or isinstance(values, str):
        return None
    try:
        numbers = tuple(map(float, values))
    except (TypeError, ValueError):
        return None
    if len(numbers) != count or not all(-FARTHEST < number < FARTHEST for number in numbers):
        return None
    return numbers if digits is None else tuple(round(number, digits) + 0.0 for number in numbers)


def _number(value: Any) -> Any:
    if value is not None and (type(value) not in (int, float) or not math.isfinite(value)):
        raise ValueError
    return value


SAME_DIRECTION = 0.5  # degrees between rows, and between columns, of one stack

LEAST_APART, MOST_APART = (
    1e-3,
    0.1,
)  # mm; slices that are nearer to each other than the tolerance are at one place

SHARE_APART = 0.1  # of the mean distance of slices: the tolerance between these two

STACK = 3  # slices of a pass that lie among those of another before both are stacks of their own


class PlacedSlice(NamedTuple):
    """A frame to be put in order. uid: of its instance; frame: its number, 0 for a file with a single one."""

    location: SlicePlace
    uid: str = ""
    frame: int = 0


class Passes(NamedTuple):
    """Stacks of slices, by index, each in the order of its places along the normal.

    certain: whether the headers tell the passes apart; otherwise the instance numbers do, which need not.
    """

    stacks: list[list[int]]
    certain: bool


@dataclass(frozen=True)
class _Member:
    """A slice of parallel ones. at: mm along their normal. time: milliseconds after the earliest."""

    index: int
    at: float
    location: SlicePlace
    time: int | None
    last: tuple[object, ...]  # decides between slices that the header does not tell apart


_Key = Callable[[_Member], float | None]

_KEYS: tuple[_Key, ...] = (
    lambda member: member.location.acquisition,
    lambda member: member.time,
    lambda member: member.location.temporal,
    lambda member: member.location.trigger,
)


class SliceStack(NamedTuple):
    """Frames of a series that follow each other, by index. positions: mm along their normal; None if unknown."""

    members: list[int]
    positions: list[float] | None


def order_slices(slices: Sequence[PlacedSlice]) -> list[int]:
    """Return the order of the frames of a series, as indices: one stack of `slice_stacks` after another."""
    return [index for stack in slice_stacks(slices) for index in stack.members]


def slice_stacks(slices: Sequence[PlacedSlice]) -> list[SliceStack]:
    """Return the stacks of a series.

    Parallel slices follow each other along their normal, one pass over the same places after another. Stacks of other
    orientations, and frames without a place, come in the order of their lowest instance number.

    Parameters
    ----------
    slices : sequence of PlacedSlice
        Frames of one series, in any order.
    """
    stacks = [sorted(group, key=lambda index: _last_key(slices[index])) for group in parallel_slices(slices)]
    stacks.sort(key=lambda stack: _last_key(slices[stack[0]]))
    ordered: list[SliceStack] = []
    for stack in stacks:
        if not _is_placed(slices[stack[0]]):
            ordered.append(SliceStack(stack, None))
            continue
        passes = [stack] if len(stack) == 1 else separate_passes(slices, stack).stacks
        normal = common_directions(slices, stack)[2]
        ordered += [SliceStack(part, positions_along(slices, part, normal)) for part in passes]
    return ordered


def parallel_slices(slices: Sequence[PlacedSlice]) -> list[list[int]]:
    """Group frames by orientation, within SAME_DIRECTION; those without a place are the last group."""
    placed = [n for n, each in enumerate(slices) if _is_placed(each)]
    groups: list[list[int]] = []
    directions = np.array([slices[n].location.orientation for n in placed], np.float64).reshape(-1, 2, 3)
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    # Of unit vectors an angle a apart, the difference has the length 2 sin(a / 2), and each component at most that.
    most = 2 * np.sin(np.radians(SAME_DIRECTION) / 2)
    components = directions.reshape(-1, 6)
    component = components[:, int(np.ptp(components, axis=0).argmax()) if placed else 0]
    ascending = np.argsort(component, kind="stable")
    left = np.ones(len(placed), np.bool_)
    for first in range(len(placed)):
        if not left[first]:
            continue
        ends = np.searchsorted(component, component[first] + np.array([-most, most]), sorter=ascending)
        near = ascending[ends[0] : ends[1] + 1]
        near = near[left[near]]
        differences = np.linalg.norm(directions[near] - directions[first], axis=2).max(axis=1)
        group = np.sort(near[differences <= most])
        left[group] = False
        groups.append([placed[n] for n in group])
    without = sorted(set(range(len(slices))) - set(placed))
    return groups + ([without] if without else [])


def _is_placed(each: PlacedSlice) -> bool:
    return each.location.position is not None and each.location.orientation is not None


def common_directions(slices: Sequence[PlacedSlice], stack: Sequence[int]) -> NDArray[np.float64]:
    """Return the directions (3, 3) of growing column, row and slice that parallel slices share: the medians."""
    cosines = np.median([slices[index].location.orientation for index in stack], axis=0)
    across, down = cosines[:3] / np.linalg.norm(cosines[:3]), cosines[3:] / np.linalg.norm(cosines[3:])
    normal = np.cross(across, down)
    return np.stack([across, down, normal / np.linalg.norm(normal)])


def positions_along(
    slices: Sequence[PlacedSlice], stack: Sequence[int], normal: NDArray[np.float64]
) -> list[float]:
    """Return the places of slices of a stack along a unit vector (3,), in mm."""
    return [float(np.dot(normal, slices[index].location.position or ())) for index in stack]


def separate_passes(slices: Sequence[PlacedSlice], stack: Sequence[int]) -> Passes:
    """Separate the passes of parallel slices that lie at the same places.

    By the acquisition number, else by the acquisition's time, the temporal position or the trigger time, as far as
    all slices have them and they tell slices at one place apart. Acquisitions that do not meet are one pass.

    Parameters
    ----------
    slices : sequence of PlacedSlice
        All frames of a series.
    stack : sequence of int
        Indices of the parallel ones, see `parallel_slices`.
    """
    offsets = positions_along(slices, stack, common_directions(slices, stack)[2])
    times = _times_since_first(slices[index].location.time for index in stack)
    members = [
        _Member(index, at, slices[index].location, time, _last_key(slices[index]))
        for index, at, time in zip(stack, offsets, times, strict=True)
    ]
    extent = max(offsets) - min(offsets)
    tolerance = float(np.clip(SHARE_APART * extent / max(len(stack) - 1, 1), LEAST_APART, MOST_APART))
    if not _meets(
        [member.at for member in members], tolerance
    ):  # but acquisitions may run through each other
        return Passes(_ordered(_merge(_groups(members, _KEYS[0]) or [members], tolerance)), True)
    parts = _split(members, _KEYS, tolerance)
    if parts is None:
        each = [[member] for member in sorted(members, key=_acquired)]
        return Passes(_ordered(_merge(each, tolerance)), False)
    passes = _merge(parts, tolerance)
    are_single = 2 * sum(len(part) == 1 for part in parts) > len(parts)
    # Where each slice has a time of its own, only whole passes are known to be of the right slices.
    return Passes(_ordered(passes), not are_single or len({len(each) for each in passes}) == 1)


def _groups(members: Sequence[_Member], key: _Key) -> list[list[_Member]] | None:
    """Group slices by the values of a key, ascending; None if some have none."""
    groups: dict[float, list[_Member]] = defaultdict(list)
    for member in members:
        value = key(member)
        if value is None:
            return None
        groups[value].append(member)
    return [groups[value] for value in sorted(groups)]


def _split(members: list[_Member], keys: Sequence[_Key], tolerance: float) -> list[list[_Member]] | None:
    """Split slices into parts without two at one place, in the order of the keys; None if the keys cannot."""
    if not _meets([member.at for member in members], tolerance):
        return [members]
    for number, key in enumerate(keys):
        groups = _groups(members, key)
        if groups is None or len(groups) == 1:
            continue
        split = [_split(group, keys[number + 1 :], tolerance) for group in groups]
        if all(parts is not None for parts in split):
            return [part for parts in split for part in parts or ()]
    return None


def _merge(parts: Iterable[list[_Member]], tolerance: float) -> list[list[_Member]]:
    """Put each part into the first pass that has no slice at its places, nor a stack among its slices."""
    passes: list[list[_Member]] = []
    used: list[list[float]] = []  # places of each pass, ascending
    following: dict[int, int] = {}  # first pass that may take another single slice, by its place
    for part in parts:
        offsets = sorted(member.at for member in part)
        cell = round(offsets[0] / tolerance)
        start = following.get(cell, 0) if len(part) == 1 else 0
        fitting = (n for n in range(start, len(used)) if not _overlap(used[n], offsets, tolerance))
        number = next(fitting, len(passes))
        if len(part) == 1:
            following[cell] = number + 1
        if number == len(passes):
            passes.append([])
            used.append([])
        passes[number] += part
        for offset in offsets:
            insort(used[number], offset)
    return passes


def _overlap(first: list[float], second: list[float], tolerance: float) -> bool:
    """Return whether two stacks, by ascending places, have slices at one place, or run through each other."""
    for offset in second:
        at = bisect_left(first, offset - tolerance)
        if at < len(first) and first[at] <= offset + tolerance:
            return True
    low, high = max(first[0], second[0]), min(first[-1], second[-1])
    inside = (bisect_right(offsets, high) - bisect_left(offsets, low) for offsets in (first, second))
    return low < high and min(inside) >= STACK


def _meets(offsets: Sequence[float], tolerance: float) -> bool:
    """Return whether two of the places are one."""
    return bool((np.diff(np.sort(offsets)) <= tolerance).any())


def _ordered(passes: Iterable[list[_Member]]) -> list[list[int]]:
    return [
        [member.index for member in sorted(part, key=lambda member: (member.at, member.last))]
        for part in passes
    ]


def _acquired(member: _Member) -> tuple[object, ...]:
    """Return the key of the order of acquisition, as far as it is known."""
    distinct = (-inf if value is None else value for value in (key(member) for key in _KEYS))
    return (*distinct, member.last)


def _times_since_first(times: Iterable[int | None]) -> list[int | None]:
    """Return the milliseconds after the earliest of times in a cycle, which may go past its end."""
    listed = list(times)
    distinct = sorted({time for time in listed if time is not None})
    if not distinct:
        return listed
    gaps = [
        (after - before) % CYCLE or CYCLE
        for before, after in zip(distinct[-1:] + distinct[:-1], distinct, strict=True)
    ]
    first = distinct[int(np.argmax(gaps))]  # the one behind the longest pause of the cycle
    return [None if time is None else (time - first) % CYCLE for time in listed]


def _last_key(each: PlacedSlice) -> tuple[float, tuple[tuple[int, str], ...], int]:
    """Return the key of the order by instance number, UID and frame."""
    instance = inf if each.location.instance is None else each.location.instance
    return instance, uid_key(each.uid), each.frame


@lru_cache(maxsize=10_000)  # each UID of a series is compared several times
def uid_key(uid: str) -> tuple[tuple[int, str], ...]:
    """Return a key that orders UIDs by their numbers: 1.10 follows 1.9."""
    return tuple((len(component), component) for component in uid.split("."))
