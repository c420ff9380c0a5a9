"""Checks of what a re-ranker is given, before it computes anything."""

import math
from typing import Any

from cbir.errors import InvalidInput


def whole(name: str, value: Any, least: int, most: int) -> int:
    """`value` as a whole number within [least, most], else InvalidInput."""
    number = _number(value)
    if number is None or not least <= number <= most or number != int(number):
        raise InvalidInput(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return int(number)


def real(name: str, value: Any, least: float, most: float) -> float:
    """`value` as a number within [least, most], else InvalidInput."""
    number = _number(value)
    if number is None or not least <= number <= most:
        raise InvalidInput(f"{name} must be a number from {least:g} to {most:g}, not {value!r}")
    return number


def _number(value: Any) -> float | None:
    """A finite number, also one written as text; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
