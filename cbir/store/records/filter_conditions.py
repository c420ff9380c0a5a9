"""Filters of images by labels, `modality=CT`, `label!=knee`, `severity>=1.5`, `grade?`, `!grade?`, or by patient."""

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, and_, false, func, or_, select

from cbir.errors import InvalidInput
from cbir.store.base.schema import as_number, images, labels
from cbir.store.base.statements import is_value
from cbir.store.records.records import require_other_keys

MAX_CHARACTERS = 1000  # of a condition

OPERATORS = ("!=", ">=", "<=", "=", ">", "<")

COMPARISONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}

PRESENT, ABSENT = "?", "!?"

WITHOUT_VALUE = (PRESENT, ABSENT)

FORMS = "key=value (also != < <= > >=, key? for images with the label, !key? for those without)"


@dataclass(frozen=True)
class DicomScope:
    """A study, series or instance by its UIDs. series, instance: "" for all. Without a study it is empty."""

    study: str = ""
    series: str = ""
    instance: str = ""

    def contains(self) -> ColumnElement[bool]:
        """Return the SQL condition of the images in this scope."""
        columns = images.c.study, images.c.series, images.c.instance
        uids = zip(columns, (self.study, self.series, self.instance), strict=True)
        return and_(*(column == uid for column, uid in uids if uid)) if self.study else false()

    def excludes(self) -> ColumnElement[bool]:
        """Return the SQL condition of the images in this scope, or without a SOP Instance UID."""
        return or_(images.c.instance == "", self.contains())


@dataclass(frozen=True)
class Condition:
    """Comparison of a label with a value; `<`, `<=`, `>`, `>=` compare as numbers.

    other_values: further values of `=`, any of which fulfils it. The operators `?` and `!?` have no value: the image
    has the label, or has not. Raises InvalidInput for the key of study days.
    """

    key: str
    operator: str
    value: str
    other_values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_other_keys([self.key])

    @property
    def values(self) -> tuple[str, ...]:
        """All values."""
        return (self.value, *self.other_values)

    def matches(self) -> ColumnElement[bool]:
        """Return the SQL condition on `images.number`."""
        having_key = select(labels.c.number).where(labels.c.key == self.key)
        if self.operator == PRESENT:
            return images.c.number.in_(having_key)
        if self.operator == ABSENT:
            return images.c.number.not_in(having_key)
        if self.operator == "=":
            return images.c.number.in_(having_key.where(is_value(labels.c.value, *self.values)))
        if self.operator == "!=":
            return images.c.number.not_in(having_key.where(is_value(labels.c.value, self.value)))
        compare: Callable[[Any, float], ColumnElement[bool]] = COMPARISONS[self.operator]
        if math.isnan(float(self.value)):  # PostgreSQL sorts it above all numbers
            return false()
        holds = compare(func.as_number(labels.c.value), float(self.value))
        return images.c.number.in_(having_key.where(holds))

    def holds_for(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels outside a collection fulfil the condition, as `matches` does in it."""
        value = labels.get(self.key)
        if self.operator in WITHOUT_VALUE:
            return (value is not None) == (self.operator == PRESENT)
        if self.operator in ("=", "!="):
            return (value in self.values) == (self.operator == "=")
        number = as_number(value or "")
        return number is not None and bool(COMPARISONS[self.operator](number, float(self.value)))


def parse_filters(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Parse conditions that must all hold; of several `key=value` with the same key any one. Raises InvalidInput.

    An image has one value of a key, so no image could fulfil two of them.
    """
    conditions: dict[object, Condition] = {}
    for condition in map(parse_filter, texts):
        name: object = condition.key if condition.operator == "=" else condition
        earlier = conditions.get(name)
        if earlier is None:
            conditions[name] = condition
        elif condition.value not in earlier.values:
            conditions[name] = replace(earlier, other_values=(*earlier.other_values, condition.value))
    return tuple(conditions.values())


def parse_filter(text: str) -> Condition:
    """Parse a condition of at most 1000 characters, such as `modality=CT`; raises InvalidInput."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidInput(
            f"the filter '{text[:20]}...' has {len(text)} characters; {MAX_CHARACTERS} are allowed"
        )
    presence = _parse_presence(text.strip())
    if presence is not None:
        return presence
    start = next((index for index, character in enumerate(text) if character in "=!<>"), len(text))
    key, rest = text[:start].strip(), text[start:]
    symbol = next((symbol for symbol in OPERATORS if rest.startswith(symbol)), None)
    if not key or symbol is None:
        raise InvalidInput(f"the filter '{text}' is not of the form {FORMS}")
    condition = Condition(key, symbol, rest.removeprefix(symbol).strip())
    if symbol in COMPARISONS:
        try:
            float(condition.value)
        except ValueError:
            raise InvalidInput(f"the filter '{text}' compares with a value that is not a number") from None
    return condition


def _parse_presence(text: str) -> Condition | None:
    """Return the condition `key?` or `!key?`; None for another form, since values may end with a question mark."""
    if not text.endswith("?"):
        return None
    symbol = ABSENT if text.startswith("!") else PRESENT
    key = text.removeprefix("!").removesuffix("?").strip()
    return Condition(key, symbol, "") if key and not set(key) & set("=!<>") else None


@dataclass(frozen=True)
class PatientScope:
    """Images of a patient. key: None for an unknown one. besides: UID of a study that is left out, "" for none."""

    key: str | None
    besides: str = ""

    def contains(self) -> ColumnElement[bool]:
        """Return the SQL condition of the images in this scope."""
        if self.key is None:
            return false()
        return and_(
            images.c.patient_key == self.key, or_(images.c.study == "", images.c.study != self.besides)
        )
