"""Which images of a manifest are positive, which negative, and which are for training, validation and test."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir.datasets.manifest import Manifest
from cbir.errors import InvalidInput
from cbir.store.filters import Condition, parse

PARTS = ("training", "validation", "test")
NAMED = 8  # values of a label that a message lists


@dataclass(frozen=True)
class RankerExample:
    """A row of the manifest. patient: "" where nobody says."""

    path: Path
    positive: bool
    patient: str


def read_ranker_examples(manifest: Manifest, positive: Sequence[str], where: Sequence[str] = ()) -> list[RankerExample]:
    """Rows for which it is known whether they are positive, in the order of the manifest.

    positive: conditions as `malignant`, which is short for label=malignant, or `grade=4`, `grade>=3`; one of them
    has to hold. where: conditions that must all hold for a row to count at all. A row without any of the labels
    that `positive` names is left out. Raises InvalidInput where there are no positives or no negatives.
    """
    wanted = [parse(text if set(text) & set("=!<>") else f"label={text}") for text in positive]
    needed = [parse(text) for text in where]
    unknown = {c.key for c in (*wanted, *needed)} - set(manifest.columns)
    if unknown or not wanted:
        raise InvalidInput(
            f"{manifest.path} has no column {', '.join(sorted(unknown))}; it has {', '.join(manifest.columns)}"
            if unknown else "name at least one positive label"
        )  # fmt: skip
    found, seen = [], set()
    for path, labels in manifest.rows():
        known = [condition for condition in wanted if condition.key in labels]
        if known and all(condition_holds(condition, labels.get(condition.key)) for condition in needed):
            is_positive = any(condition_holds(condition, labels[condition.key]) for condition in known)
            found.append(RankerExample(path, is_positive, labels.get("patient", "")))
            seen |= {labels[condition.key] for condition in known}
    count = sum(example.positive for example in found)
    if not 0 < count < len(found):
        some = ", ".join(sorted(seen)[:NAMED]) + (", ..." if len(seen) > NAMED else "")
        raise InvalidInput(
            f"of {len(found)} images {count} are positive by {' or '.join(positive)}; there must be some, and "
            f"others. Values there are: {some or 'none'}"
        )
    return found


def condition_holds(condition: Condition, value: str | None) -> bool:
    """Whether a label's value fulfils a condition; numbers are compared as such, and what is none fulfils nothing."""
    if condition.operator == "=":
        return value == condition.value
    if condition.operator == "!=":
        return value != condition.value
    try:
        number, bound = float(value or ""), float(condition.value)
    except ValueError:
        return False
    return {
        ">=": number >= bound,
        "<=": number <= bound,
        ">": number > bound,
        "<": number < bound,
    }[condition.operator]


def split_by_positive(
    positive: Sequence[bool],
    groups: Sequence[str],
    shares: tuple[float, float, float] = (0.6, 0.2, 0.2),
    seed: int = 0,
) -> dict[str, NDArray[np.int64]]:
    """Ascending places of the images of each of PARTS, by those names.

    Images of one group, a patient for instance, stay together. Groups with a positive image, and those without, are
    drawn separately, so that each part has about its share of both. Raises InvalidInput where a part would lack one.
    """
    if len(shares) != len(PARTS) or not min(shares) > 0 or not abs(sum(shares) - 1) < 1e-6:
        raise InvalidInput("the shares of training, validation and test must be above 0 and add up to 1")
    random = np.random.default_rng(seed)
    members: dict[str, list[int]] = {}
    for place, group in enumerate(groups):
        members.setdefault(group, []).append(place)
    parts: tuple[list[int], ...] = ([], [], [])
    for kind in (True, False):
        of_kind = [places for places in members.values() if any(positive[place] for place in places) == kind]
        if len(of_kind) < len(PARTS):
            name = "a positive" if kind else "no positive"
            raise InvalidInput(
                f"training, validation and test need at least one patient each with {name} image; "
                f"there are {len(of_kind)}"
            )
        sizes = np.zeros(len(PARTS))
        order = random.permutation(len(of_kind)).tolist()
        for turn, number in enumerate(order):
            part = turn if turn < len(PARTS) else int(np.argmin(sizes / np.array(shares)))
            parts[part].extend(of_kind[number])
            sizes[part] += len(of_kind[number])
    return {name: np.sort(np.array(places, np.int64)) for name, places in zip(PARTS, parts, strict=True)}
