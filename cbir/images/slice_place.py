"""Place of a DICOM frame in its series: position, orientation and acquisition, as its header says."""

import json
import math
from dataclasses import astuple, dataclass
from typing import Any, Self

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
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        return None
    if len(numbers) != count or not all(abs(number) < FARTHEST for number in numbers):
        return None
    return numbers if digits is None else tuple(round(number, digits) + 0.0 for number in numbers)


def _number(value: Any) -> Any:
    if value is not None and (type(value) not in (int, float) or not math.isfinite(value)):
        raise ValueError
    return value
