"""Labelled examples of a manifest, and their split into parts by patient."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        raise InvalidInput(f"the loss takes grades, and {label[:40]!r} in {column} is not a number")
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


PARTS = ("training", "validation", "test")
SHARES = (0.6, 0.2, 0.2)
Shares = tuple[float, float, float]
Parts = dict[str, NDArray[np.int64]]
Strata = dict[Any, list[list[int]]]


def split_by_positive(
    positive: Sequence[bool], groups: Sequence[str], shares: Shares = SHARES, seed: int = 0
) -> Parts:
    """Split images so that each part has about its share of the groups with a positive image, and of the others.

    Parameters
    ----------
    positive : (n,) bool
        Whether an image is positive.
    groups : (n,) str
        Images of one group, such as a patient, stay together.
    shares : tuple of float
        Shares of training, validation and test; they add up to 1.
    seed : int
        Seed of the random choice.

    Returns
    -------
    dict
        Ascending rows of each of PARTS.

    Raises
    ------
    InvalidInput
        If a part would have no positive or no negative group, or the shares do not add up.
    """
    if len(shares) != len(PARTS) or not min(shares) > 0 or not abs(sum(shares) - 1) < 1e-6:
        raise InvalidInput("the shares of training, validation and test must be above 0 and add up to 1")
    strata = _strata(groups, lambda rows: not any(positive[row] for row in rows))
    for is_negative, name in enumerate(("a positive", "no positive")):
        if (count := len(strata[bool(is_negative)])) < len(PARTS):
            raise InvalidInput(
                f"training, validation and test need at least one patient each with {name} image; "
                f"there are {count}"
            )
    return _split(strata, shares, seed)


def split_by_class(labels: Sequence[str], groups: Sequence[str], seed: int = 0) -> Parts:
    """Split images so that each part has about its share (of SHARES) of each class.

    Parameters
    ----------
    labels : (n,) str
        Classes. A group belongs to the class that most of its images have.
    groups : (n,) str
        Images of one group, such as a patient, stay together.
    seed : int
        Seed of the random choice.

    Returns
    -------
    dict
        Ascending rows of each of PARTS.

    Raises
    ------
    InvalidInput
        If a part would have fewer than two classes.
    """
    strata = _strata(groups, lambda rows: Counter(labels[row] for row in rows).most_common(1)[0][0])
    parts = _split(strata, SHARES, seed)
    for name, rows_of_part in parts.items():
        if len({labels[row] for row in rows_of_part}) < 2:
            raise InvalidInput(f"too few images: {name} would have fewer than two classes")
    return parts


def _strata(groups: Sequence[str], stratum_of: Callable[[list[int]], Any]) -> Strata:
    """Return the rows of each group, by the stratum that `stratum_of` gives these rows."""
    members, strata = defaultdict(list), defaultdict(list)
    for row, group in enumerate(groups):
        members[group].append(row)
    for rows in members.values():
        strata[stratum_of(rows)].append(rows)
    return strata


def _split(strata: Strata, shares: Shares, seed: int) -> Parts:
    """Deal the groups of each stratum in random order, each to the part that lacks most of its share."""
    random = np.random.default_rng(seed)
    parts: tuple[list[int], ...] = ([], [], [])
    for _, stratum in sorted(strata.items()):
        sizes = np.zeros(len(PARTS))
        for index in random.permutation(len(stratum)).tolist():
            part = int(np.argmin(sizes / np.array(shares)))  # the first of equals: training, validation, test
            parts[part].extend(stratum[index])
            sizes[part] += len(stratum[index])
    return {name: np.sort(np.array(rows, np.int64)) for name, rows in zip(PARTS, parts, strict=True)}
