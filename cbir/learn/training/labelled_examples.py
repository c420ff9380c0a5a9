"""Labelled images of a manifest: positive and negative ones to train a ranker, classes to train an embedding."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cbir.errors import InvalidInput
from cbir.ingest.manifest import Manifest
from cbir.learn.training.picture_loading import Example
from cbir.store.records.filter_conditions import Condition, parse_filter, parse_filters

LISTED = 8  # values of a label in a message


@dataclass(frozen=True)
class RankerExample(Example):
    """An image that is positive or negative."""

    positive: bool


@dataclass(frozen=True)
class ClassExample(Example):
    """An image with its class `label`, and all columns of its row, `labels`."""

    label: str
    labels: dict[str, str]


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
    requirements = parse_filters(where)
    if not alternatives:
        raise InvalidInput("name at least one positive label")
    _require_columns(manifest, {c.key for c in (*alternatives, *requirements)})
    examples, values = [], set()
    for path, labels in manifest.rows():
        applicable = [condition for condition in alternatives if condition.key in labels]
        if applicable and all(_condition_holds(c, labels.get(c.key)) for c in requirements):
            is_positive = any(_condition_holds(c, labels[c.key]) for c in applicable)
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


def read_class_examples(
    manifest: Manifest, column: str, where: Sequence[str] = (), numeric: bool = False
) -> list[ClassExample]:
    """Read the rows of a manifest that have a class.

    Parameters
    ----------
    manifest : Manifest
        The manifest.
    column : str
        Column of the classes.
    where : sequence of str
        Conditions such as `modality=CT` that a row must fulfil.
    numeric : bool
        Refuse classes that are not numbers.

    Returns
    -------
    list of ClassExample
        In the order of the manifest.

    Raises
    ------
    InvalidInput
        If a column is missing, there are fewer than two classes, or a class is not a number.
    """
    conditions = parse_filters(where)
    _require_columns(manifest, {column, *(condition.key for condition in conditions)})
    examples = [
        ClassExample(path, labels.get("patient", ""), labels[column], labels)
        for path, labels in manifest.rows()
        if column in labels and all(_condition_holds(c, labels.get(c.key)) for c in conditions)
    ]
    if len({example.label for example in examples}) < 2:
        raise InvalidInput(f"an embedding learns from at least two classes of {column} in {manifest.path}")
    for label in (example.label for example in examples if numeric and not _is_number(example.label)):
        raise InvalidInput(f"the loss ordinal takes grades, and {label[:40]!r} in {column} is not a number")
    return examples


def order_classes(labels: Sequence[str]) -> list[str]:
    """Return each of `labels` once: in numeric order if all are numbers, else in alphabetical order."""
    names = sorted(set(labels))
    return sorted(names, key=float) if all(map(_is_number, names)) else names


def _require_columns(manifest: Manifest, keys: set[str]) -> None:
    if unknown := sorted(keys - set(manifest.columns)):
        columns = ", ".join(manifest.columns)
        raise InvalidInput(f"{manifest.path} has no column {', '.join(unknown)}; it has {columns}")


def _condition_holds(condition: Condition, value: str | None) -> bool:
    """Return whether a label's value fulfils a condition; None for no label."""
    return condition.holds_for({} if value is None else {condition.key: value})


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
