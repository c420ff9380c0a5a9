"""Values of a grey frame in at most 16 bits, with the slope and intercept that turn them into modality units."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEVELS = 2**16 - 1
SMALL: tuple[type[np.integer], ...] = (np.uint8, np.int16, np.uint16)
TOLERANCE = 1e-6  # of the range: values that far from a line are on it


class ScaledValues(NamedTuple):
    """Numbers (height, width) in uint8, int16 or uint16: a value is slope * number + intercept.

    unit: "HU", or "" for an unknown one. linear: whether a window shows them as the file is displayed; otherwise that
    is by a table or curve. inverted: low values are white.
    """

    numbers: NDArray[np.integer]
    slope: float = 1.0
    intercept: float = 0.0
    unit: str = ""
    linear: bool = True
    inverted: bool = False


def smallest_type(least: float, greatest: float) -> type[np.integer] | None:
    """Return the smallest type that holds whole numbers of this range, None if they need more than 16 bits."""
    for kind in SMALL:
        if np.iinfo(kind).min <= least and greatest <= np.iinfo(kind).max:
            return kind
    return None


def scale_values(values: NDArray[np.float64]) -> ScaledValues:
    """Return finite values of any size in 16 bits: exactly where they are whole numbers, else in 65,536 levels."""
    least, greatest = float(values.min()), float(values.max())
    kind = smallest_type(least, greatest)
    if kind and (values == np.rint(values)).all():
        return ScaledValues(values.astype(kind))
    slope = (greatest - least) / LEVELS
    if not 0 < slope < np.inf:
        return ScaledValues(np.zeros(values.shape, np.uint16), 1.0, least)
    return ScaledValues(np.rint((values - least) / slope).astype(np.uint16), slope, least)


def line_through(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return slope and first value of a line that values (n,) of successive whole numbers are on, None for none."""
    if len(values) == 1:
        return 1.0, float(values[0])
    slope = float(values[-1] - values[0]) / (len(values) - 1)
    apart = np.abs(values[0] + slope * np.arange(len(values)) - values).max()
    on_line = slope != 0 and apart <= TOLERANCE * abs(float(values[-1] - values[0]))
    return (round(slope, 12) or slope, float(values[0])) if on_line else None
