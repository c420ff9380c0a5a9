"""Checks of what a re-ranker is given, before it computes anything."""

import math
from collections.abc import Mapping
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


def keep_within(parameters: Any, limits: Mapping[str, tuple[float, float]]) -> None:
    """Put checked numbers into the fields of a frozen dataclass that `limits` names; whole where the default is.

    Raises InvalidInput for one that is outside of its least and most.
    """
    for name, (least, most) in limits.items():
        value = getattr(parameters, name)
        if isinstance(type(parameters).__dataclass_fields__[name].default, int):
            value = whole(name, value, int(least), int(most))
        else:
            value = real(name, value, least, most)
        object.__setattr__(parameters, name, value)


def _number(value: Any) -> float | None:
    """A finite number, also one written as text; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
