"""Label filters in text form: `modality=CT`, `label!=knee`, `severity>=1.5`."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select

from cbir.errors import InvalidInput
from cbir.store.schema import images, labels

MAX_CHARACTERS = 1000  # of a condition
OPERATORS = ("!=", ">=", "<=", "=", ">", "<")
COMPARISONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


@dataclass(frozen=True)
class Condition:
    """Comparison of a label with a value; `<`, `<=`, `>`, `>=` compare as numbers."""

    key: str
    operator: str
    value: str

    def matches(self) -> ColumnElement[bool]:
        """Return the SQL condition on `images.number`."""
        having_key = select(labels.c.number).where(labels.c.key == self.key)
        if self.operator == "=":
            return images.c.number.in_(having_key.where(labels.c.value == self.value))
        if self.operator == "!=":
            return images.c.number.not_in(having_key.where(labels.c.value == self.value))
        compare: Callable[[Any, float], ColumnElement[bool]] = COMPARISONS[self.operator]
        holds = compare(func.as_number(labels.c.value), float(self.value))
        return images.c.number.in_(having_key.where(holds))

    def holds_for(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels outside a collection fulfil the condition, as `matches` does in it."""
        value = labels.get(self.key)
        if self.operator in ("=", "!="):
            return (value == self.value) == (self.operator == "=")
        try:
            return bool(COMPARISONS[self.operator](float(value or "nan"), float(self.value)))
        except ValueError:
            return False


def parse_filter(text: str) -> Condition:
    """Parse a condition of at most 1000 characters, such as `modality=CT`; raises InvalidInput."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidInput(
            f"the filter '{text[:20]}...' has {len(text)} characters; {MAX_CHARACTERS} are allowed"
        )
    start = next((index for index, character in enumerate(text) if character in "=!<>"), len(text))
    key, rest = text[:start].strip(), text[start:]
    symbol = next((symbol for symbol in OPERATORS if rest.startswith(symbol)), None)
    if not key or symbol is None:
        raise InvalidInput(f"the filter '{text}' is not of the form key=value (also != < <= > >=)")
    condition = Condition(key, symbol, rest.removeprefix(symbol).strip())
    if symbol in COMPARISONS:
        try:
            float(condition.value)
        except ValueError:
            raise InvalidInput(f"the filter '{text}' compares with a value that is not a number") from None
    return condition
