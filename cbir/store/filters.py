"""Label filters, as typed: `modality=CT`, `label!=knee`, `severity>=1.5`."""

import re
from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, select

from cbir.errors import InvalidInput
from cbir.store.schema import images, labels

FORM = re.compile(r"\s*([^=!<>]+?)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """One comparison of a label with a value; `<`, `<=`, `>`, `>=` compare as numbers."""

    key: str
    operator: str
    value: str

    def matches(self) -> ColumnElement[bool]:
        """The SQL condition on `images.number`."""
        having_key = select(labels.c.number).where(labels.c.key == self.key)
        if self.operator == "=":
            return images.c.number.in_(having_key.where(labels.c.value == self.value))
        if self.operator == "!=":
            return images.c.number.not_in(having_key.where(labels.c.value == self.value))
        stored, wanted = func.as_number(labels.c.value), float(self.value)
        comparison = {
            ">=": stored >= wanted,
            "<=": stored <= wanted,
            ">": stored > wanted,
            "<": stored < wanted,
        }[self.operator]
        return images.c.number.in_(having_key.where(comparison))


def parse(text: str) -> Condition:
    """The condition written in `text`; raises InvalidInput where it is none."""
    found = FORM.fullmatch(text)
    if not found:
        raise InvalidInput(f"the filter '{text}' is not of the form key=value (also != < <= > >=)")
    condition = Condition(*found.groups())
    if condition.operator in ("<", "<=", ">", ">="):
        try:
            float(condition.value)
        except ValueError:
            raise InvalidInput(f"the filter '{text}' compares with something that is not a number") from None
    return condition
