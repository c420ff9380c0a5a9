"""Parameters of re-rankers: declared once with their bounds, checked when they are set."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Self

from cbir.errors import InvalidInput

AUTO = "auto"  # value of a parameter that the method chooses
PRESET, PAPER = (
    "preset",
    "paper",
)  # preset=paper: the values of the method's paper, whatever a profile has tuned
MOST_QUOTED = 40  # characters of a wrong value that a message quotes


@dataclass(frozen=True)
class ParameterInfo:
    """Declaration of a parameter: a number from `minimum` to `maximum`, or "auto" where that is the default."""

    name: str
    whole: bool
    minimum: float
    maximum: float
    default: float | str
    description: str


def parameter(default: float | str, low: float, high: float, description: str) -> Any:
    """Declare a field of a `ParameterSet`.

    Parameters
    ----------
    default : int, float or "auto"
        An int declares a whole number; "auto", a number that the method chooses unless it is given.
    low, high : int or float
        Bounds, both included.
    description : str
        Meaning of the parameter, for documentation.
    """
    return field(default=default, metadata={"low": low, "high": high, "description": description})


def with_default(owner: type["ParameterSet"], name: str, default: float | str) -> Any:
    """Declare a field with the bounds and the meaning of a parameter of another set.

    Parameters
    ----------
    owner : type
        Set that declares the parameter.
    name : str
        Its name there.
    default : int, float or "auto"
        Default of the new field.
    """
    metadata = next(spec.metadata for spec in fields(owner) if spec.name == name)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class ParameterSet:
    """Numbers within bounds; a frozen dataclass whose fields are declared with `parameter`.

    Numbers written as text are accepted. Raises InvalidInput for a value outside its bounds.
    `paper`: the values that its paper gives, which `preset=paper` stands for; empty for a method without one.
    """

    paper: ClassVar[Mapping[str, float | str]] = {}

    def __post_init__(self) -> None:
        for spec in fields(self):
            low, high = spec.metadata["low"], spec.metadata["high"]
            value, is_int = getattr(self, spec.name), isinstance(spec.default, int)
            if value == spec.default == AUTO:
                continue
            number = _finite(value)
            if number is None or not low <= number <= high or (is_int and number != int(number)):
                kind, form = ("whole number", "") if is_int else ("number", "g")
                choice = f" or {AUTO}" if spec.default == AUTO else ""
                bounds = f"a {kind} from {low:{form}} to {high:{form}}{choice}"
                raise InvalidInput(f"{spec.name} must be {bounds}, not {value!r:.{MOST_QUOTED}}")
            object.__setattr__(self, spec.name, int(number) if is_int else number)

    @property
    def parameters(self) -> dict[str, Any]:
        """Values by name, as answers report them."""
        return asdict(self)

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """Return the names in the order of declaration."""
        return tuple(spec.name for spec in fields(cls))

    @classmethod
    def parameter_infos(cls) -> tuple[ParameterInfo, ...]:
        """Return the declarations in their order."""
        infos: list[ParameterInfo] = []
        for spec in fields(cls):
            default: Any = spec.default
            low, high, text = (spec.metadata[key] for key in ("low", "high", "description"))
            infos.append(ParameterInfo(spec.name, isinstance(default, int), low, high, default, text))
        return tuple(infos)

    @classmethod
    def from_values(cls, label: str, values: Mapping[str, Any]) -> Self:
        """Create a set from `values`, the rest at their defaults; `label` names it in errors.

        With `preset=paper` among them, the rest has the values of the paper. Raises InvalidInput for an unknown name,
        with the list of those that exist.
        """
        values = cls.with_preset(label, values)
        names = cls.parameter_names()
        for name in values:
            if name not in names:
                listed = f"it has: {', '.join(names)}" if names else "it has none"
                raise InvalidInput(f"{label} has no parameter {name!r}; {listed}")
        return cls(**values)

    @classmethod
    def with_preset(cls, label: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return `values` with those of the paper in place of `preset=paper`; `label` names the set in errors.

        Raises InvalidInput for another preset, and where there is no paper.
        """
        if PRESET not in values:
            return dict(values)
        if not cls.paper:
            raise InvalidInput(f"{label} has no {PRESET}: it follows no paper; set its parameters one by one")
        if values[PRESET] != PAPER:
            raise InvalidInput(f"{PRESET} must be {PAPER}, not {values[PRESET]!r:.{MOST_QUOTED}}")
        return {**cls.paper, **{name: value for name, value in values.items() if name != PRESET}}


def parse_value(text: str) -> int | float | str:
    """Parse the value of a parameter, a number, "auto" or "paper"; raises ValueError."""
    if text in (AUTO, PAPER):
        return text
    try:
        return int(text)
    except ValueError:
        return float(text)


def _finite(value: Any) -> float | None:
    """Return a finite number, also from text; None for anything else, bools included."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
