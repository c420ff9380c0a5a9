"""Which class the images of a manifest belong to, and which of them are for training, validation and test."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir.datasets.manifest import Manifest
from cbir.errors import InvalidInput
from cbir.store.filters import parse
from cbir.training.ranker_examples import PARTS, condition_holds


@dataclass(frozen=True)
class ClassExample:
    """A row of the manifest: file, class, patient ("" where nobody says), and what all its columns say."""

    path: Path
    label: str
    patient: str
    labels: dict[str, str]


def read_class_examples(manifest: Manifest, column: str, where: Sequence[str] = ()) -> list[ClassExample]:
    """Rows that have a label in `column`, in the order of the manifest; conditions `where` must all hold.

    Raises InvalidInput for a column that is not there, and for fewer than two classes.
    """
    needed = [parse(text) for text in where]
    for key in (column, *(condition.key for condition in needed)):
        if key not in manifest.columns:
            raise InvalidInput(f"{manifest.path} has no column {key}; it has {', '.join(manifest.columns)}")
    found = [
        ClassExample(path, labels[column], labels.get("patient", ""), labels)
        for path, labels in manifest.rows()
        if column in labels and all(condition_holds(condition, labels.get(condition.key)) for condition in needed)
    ]
    if len({row.label for row in found}) < 2:
        raise InvalidInput(f"an embedding learns from at least two classes of {column} in {manifest.path}")
    return found


def order_classes(labels: Sequence[str]) -> list[str]:
    """Each class once: as numbers ascend where all are numbers, as text otherwise."""
    names = sorted(set(labels))
    return sorted(names, key=float) if all(map(_is_number, names)) else names


def require_numeric_classes(labels: Sequence[str], column: str) -> None:
    """Raise InvalidInput, with an example, where the classes are no grades."""
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


def split_by_class(
    labels: Sequence[str],
    groups: Sequence[str],
    shares: tuple[float, float, float] = (0.6, 0.2, 0.2),
    seed: int = 0,
) -> dict[str, NDArray[np.int64]]:
    """Ascending places of the images of "training", "validation" and "test", by those names.

    Images of one group, a patient for instance, stay together, and count for the class that most of them have. Each
    class is divided on its own: its first group goes to training, then each part gets what it lacks most.
    """
    if len(shares) != len(PARTS) or not min(shares) > 0 or not abs(sum(shares) - 1) < 1e-6:
        raise InvalidInput("the shares of training, validation and test must be above 0 and add up to 1")
    random = np.random.default_rng(seed)
    members: dict[str, list[int]] = {}
    for place, group in enumerate(groups):
        members.setdefault(group, []).append(place)
    of_class: dict[str, list[list[int]]] = {}
    for places in members.values():
        most = Counter(labels[place] for place in places).most_common(1)[0][0]
        of_class.setdefault(most, []).append(places)
    parts: tuple[list[int], ...] = ([], [], [])
    for label in sorted(of_class):
        sizes = np.zeros(len(PARTS))
        for number in random.permutation(len(of_class[label])).tolist():
            part = int(np.argmin(sizes / np.array(shares)))  # the first of equals is training
            parts[part].extend(of_class[label][number])
            sizes[part] += len(of_class[label][number])
    found = {name: np.sort(np.array(places, np.int64)) for name, places in zip(PARTS, parts, strict=True)}
    for name, chosen in found.items():
        if len({labels[place] for place in chosen}) < 2:
            raise InvalidInput(f"the images are too few: {name} would have fewer than two classes")
    return found
