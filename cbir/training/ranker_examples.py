"""Positive and negative images of a manifest, for training a ranker."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from cbir.datasets.manifest import Manifest
from cbir.errors import InvalidInput
from cbir.store.filter_conditions import Condition, parse_filter
from cbir.training.picture_loading import Example

LISTED = 8  # values of a label in a message
COMPARISONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


@dataclass(frozen=True)
class RankerExample(Example):
    """An image that is positive or negative."""

    positive: bool


def read_ranker_examples(
    manifest: Manifest, positive: Sequence[str], where: Sequence[str] = ()
) -> list[RankerExample]:
    """Read the rows of a manifest that are positive or negative.

    A row without any of the labels that `positive` names is left out.

    Parameters
    ----------
    manifest : Manifest
        The manifest.
    positive : sequence of str
        Conditions such as `grade>=3`, or `malignant`, short for label=malignant; one of them must hold.
    where : sequence of str
        Conditions that a row must fulfil to count at all.

    Returns
    -------
    list of RankerExample
        In the order of the manifest.

    Raises
    ------
    InvalidInput
        If a column is missing, or there are no positives or no negatives.
    """
    alternatives = [parse_filter(text if set(text) & set("=!<>") else f"label={text}") for text in positive]
    requirements = [parse_filter(text) for text in where]
    if not alternatives:
        raise InvalidInput("name at least one positive label")
    unknown = {c.key for c in (*alternatives, *requirements)} - set(manifest.columns)
    if unknown:
        raise InvalidInput(
            f"{manifest.path} has no column {', '.join(sorted(unknown))}; it has {', '.join(manifest.columns)}"
        )
    examples, values = [], set()
    for path, labels in manifest.rows():
        applicable = [condition for condition in alternatives if condition.key in labels]
        if applicable and all(condition_holds(c, labels.get(c.key)) for c in requirements):
            is_positive = any(condition_holds(c, labels[c.key]) for c in applicable)
            examples.append(RankerExample(path, labels.get("patient", ""), is_positive))
            values |= {labels[condition.key] for condition in applicable}
    count = sum(example.positive for example in examples)
    if not 0 < count < len(examples):
        listed = ", ".join(sorted(values)[:LISTED]) + (", ..." if len(values) > LISTED else "")
        raise InvalidInput(
            f"of {len(examples)} images {count} are positive by {' or '.join(positive)}; training needs positives "
            f"and negatives. Values present: {listed or 'none'}"
        )
    return examples


def condition_holds(condition: Condition, value: str | None) -> bool:
    """Return whether a label's value fulfils a condition; `<` and the like compare numbers, and only numbers."""
    if condition.operator == "=":
        return value == condition.value
    if condition.operator == "!=":
        return value != condition.value
    try:
        number, bound = float(value or ""), float(condition.value)
    except ValueError:
        return False
    return bool(COMPARISONS[condition.operator](number, bound))
