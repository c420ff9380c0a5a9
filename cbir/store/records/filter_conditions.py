"""Filters of images by labels, `modality=CT`, `label!=knee`, `severity>=1.5`, `grade?`, `!grade?`, or by patient."""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from cbir.errors import InvalidInput
from cbir.store.base.reserved_labels import as_number, require_other_keys

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

MAX_CHARACTERS = 1000  # of a condition

OPERATORS: tuple[Literal["!=", ">=", "<=", "=", ">", "<"], ...] = ("!=", ">=", "<=", "=", ">", "<")

COMPARISONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}

PRESENT: Literal["?"] = "?"

ABSENT: Literal["!?"] = "!?"

WITHOUT_VALUE = (PRESENT, ABSENT)

FORMS = "key=value (also != < <= > >=, key? for images with the label, !key? for those without)"


@dataclass(frozen=True)
class DicomScope:
    """A study, series or instance by its UIDs. series, instance: "" for all. Without a study it is empty."""

    study: str = ""
    series: str = ""
    instance: str = ""

    def contains(self) -> "ColumnElement[bool]":
        """Return the SQL condition of the images in this scope."""
        from sqlalchemy import and_, false

        from cbir.store.base.schema import images

        columns = images.c.study, images.c.series, images.c.instance
        uids = zip(columns, (self.study, self.series, self.instance), strict=True)
        return and_(*(column == uid for column, uid in uids if uid)) if self.study else false()

    def excludes(self) -> "ColumnElement[bool]":
        """Return the SQL condition of the images in this scope, or without a SOP Instance UID."""
        from sqlalchemy import or_

        from cbir.store.base.schema import images

        return or_(images.c.instance == "", self.contains())


@dataclass(frozen=True, init=False)
class Condition:
    """Comparison of a label with a value.

    Parameters
    ----------
    key : str
        Key of the label, as it is stored.
    operator : str
        "=" or "!=", which compare texts; "<", "<=", ">" or ">=", which compare numbers; "?" for images that have the
        label and "!?" for those that have not, without a value.
    value : str, int or float, optional
        What the label is compared with; a number stands for its text.
    other_values : sequence of str, int or float
        Further values of "=", any of which fulfils it.

    Raises
    ------
    InvalidInput
        For an unknown operator, a value that does not fit it, and keys that the collection keeps for itself.

    Examples
    --------
    >>> db.search("query.dcm", where=[Condition("modality", "=", "CT"), Condition("grade", ">=", 2)])
    """

    key: str
    operator: str
    value: str
    other_values: tuple[str, ...]

    def __init__(
        self,
        key: str,
        operator: Literal["=", "!=", "<", "<=", ">", ">=", "?", "!?"],
        value: str | float | None = None,
        other_values: Sequence[str | float] = (),
    ) -> None:
        if not key:
            raise InvalidInput("a condition needs the key of a label")
        require_other_keys([key])
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "operator", operator)
        object.__setattr__(self, "value", _text_of(key, operator, value))
        if other_values and operator != "=":
            raise InvalidInput(f"the condition on '{key}' has several values; only = takes them")
        if isinstance(other_values, str):
            raise InvalidInput(f"the condition on '{key}': other_values is a list of values, not one text")
        texts = dict.fromkeys(_text_of(key, operator, each) for each in other_values)
        texts.pop(self.value, None)
        object.__setattr__(self, "other_values", tuple(texts))

    @property
    def values(self) -> tuple[str, ...]:
        """All values."""
        return (self.value, *self.other_values)

    def texts(self) -> list[str]:
        """Return the condition as texts that `parse_filters` reads; raises InvalidInput where that cannot be done."""
        if self.operator in WITHOUT_VALUE:
            texts = [f"{'!' if self.operator == ABSENT else ''}{self.key}?"]
        else:
            texts = [f"{self.key}{self.operator}{value}" for value in self.values]
        try:
            same = parse_filters(texts) == (self,)
        except InvalidInput:
            same = False
        if not same:
            raise InvalidInput(
                f"the condition on '{self.key[:40]}' cannot be written as KEY{self.operator}VALUE, which is sent and "
                "stored: keys hold none of = ! < >, neither begins or ends with a space, and at most "
                f"{MAX_CHARACTERS} characters are allowed"
            )
        return texts

    def matches(self) -> "ColumnElement[bool]":
        """Return the SQL condition on `images.number`."""
        from sqlalchemy import false, func, select  # clients have no database

        from cbir.store.base.schema import images, labels
        from cbir.store.base.statements import is_value

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


LabelConditions = str | Condition | Sequence[str | Condition]  # as functions take them


def _text_of(key: str, operator: str, value: object) -> str:
    """Return the value of a condition as a text; raises InvalidInput if it does not fit the operator."""
    if operator in WITHOUT_VALUE:
        if value not in (None, ""):
            raise InvalidInput(f"the condition on '{key}' has a value, which {operator} does not take")
        return ""
    if operator not in OPERATORS:
        known = " ".join((*OPERATORS, *WITHOUT_VALUE))
        raise InvalidInput(f"the condition on '{key}' has the operator {operator!r}; there are: {known}")
    if isinstance(value, bool) or not isinstance(value, str | Real):
        raise InvalidInput(f"the condition on '{key}' compares with {value!r}; give a text or a number")
    text = str(value)
    if operator in COMPARISONS and not _is_number(text):
        raise InvalidInput(f"the condition on '{key}' compares with {text[:40]!r}, which is not a number")
    return text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def list_conditions(where: LabelConditions) -> list[str | Condition]:
    """Return label conditions as a list; a text or condition is a single one."""
    return [where] if isinstance(where, str | Condition) else list(where)


def write_conditions(where: LabelConditions) -> list[str]:
    """Return label conditions as texts, to be sent or stored; raises InvalidInput for what has no such form."""
    return [
        text
        for condition in list_conditions(where)
        for text in ([condition] if isinstance(condition, str) else condition.texts())
    ]


def parse_filters(where: Iterable[str | Condition]) -> tuple[Condition, ...]:
    """Parse conditions that must all hold; of several `key=value` with the same key any one. Raises InvalidInput.

    An image has one value of a key, so no image could fulfil two of them.
    """
    conditions: dict[object, Condition] = {}
    for given in where:
        condition = parse_filter(given) if isinstance(given, str) else given
        name: object = condition.key if condition.operator == "=" else condition
        earlier = conditions.get(name)
        if earlier is None:
            conditions[name] = condition
        elif others := [value for value in condition.values if value not in earlier.values]:
            conditions[name] = replace(earlier, other_values=(*earlier.other_values, *others))
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
    value = rest.removeprefix(symbol).strip()
    if symbol in COMPARISONS and not _is_number(value):
        raise InvalidInput(f"the filter '{text}' compares with a value that is not a number")
    return Condition(key, symbol, value)


def _parse_presence(text: str) -> Condition | None:
    """Return the condition `key?` or `!key?`; None for another form, since values may end with a question mark."""
    if not text.endswith("?"):
        return None
    key = text.removeprefix("!").removesuffix("?").strip()
    if not key or set(key) & set("=!<>"):
        return None
    return Condition(key, ABSENT if text.startswith("!") else PRESENT)


@dataclass(frozen=True)
class PatientScope:
    """Images of a patient. key: None for an unknown one. besides: UID of a study that is left out, "" for none."""

    key: str | None
    besides: str = ""

    def contains(self) -> "ColumnElement[bool]":
        """Return the SQL condition of the images in this scope."""
        from sqlalchemy import and_, false, or_

        from cbir.store.base.schema import images

        if self.key is None:
            return false()
        return and_(
            images.c.patient_key == self.key, or_(images.c.study == "", images.c.study != self.besides)
        )
