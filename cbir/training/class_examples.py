"""Classes of the images of a manifest, for training an embedding."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cbir.datasets.manifest import Manifest
from cbir.errors import InvalidInput
from cbir.store.filter_conditions import parse_filter
from cbir.training.picture_loading import Example
from cbir.training.ranker_examples import condition_holds


@dataclass(frozen=True)
class ClassExample(Example):
    """An image with its class `label`, and all columns of its row, `labels`."""

    label: str
    labels: dict[str, str]


def read_class_examples(manifest: Manifest, column: str, where: Sequence[str] = ()) -> list[ClassExample]:
    """Read the rows of a manifest that have a class.

    Parameters
    ----------
    manifest : Manifest
        The manifest.
    column : str
        Column of the classes.
    where : sequence of str
        Conditions such as `modality=CT` that a row must fulfil.

    Returns
    -------
    list of ClassExample
        In the order of the manifest.

    Raises
    ------
    InvalidInput
        If a column is missing or there are fewer than two classes.
    """
    conditions = [parse_filter(text) for text in where]
    for key in (column, *(condition.key for condition in conditions)):
        if key not in manifest.columns:
            raise InvalidInput(f"{manifest.path} has no column {key}; it has {', '.join(manifest.columns)}")
    examples = [
        ClassExample(path, labels.get("patient", ""), labels[column], labels)
        for path, labels in manifest.rows()
        if column in labels
        and all(condition_holds(condition, labels.get(condition.key)) for condition in conditions)
    ]
    if len({example.label for example in examples}) < 2:
        raise InvalidInput(f"an embedding learns from at least two classes of {column} in {manifest.path}")
    return examples


def order_classes(labels: Sequence[str]) -> list[str]:
    """Return each of `labels` once: in numeric order if all are numbers, else in alphabetical order."""
    names = sorted(set(labels))
    return sorted(names, key=float) if all(map(_is_number, names)) else names


def require_numeric_classes(labels: Sequence[str], column: str) -> None:
    """Raise InvalidInput, with an example, if one of the `labels` in `column` is not a number."""
    for label in labels:
        if not _is_number(label):
            raise InvalidInput(
                f"the loss ordinal takes grades, and {label[:40]!r} in {column} is not a number"
            )


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
