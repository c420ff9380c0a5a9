"""Relevance by labels: the criteria in which two images must agree, and the images that a search may return."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.irma import codes
from cbir.store import Collection, Record

Labels = Mapping[str, str]

AXES = "TDAB"  # technique, direction, anatomy, biological system

IRMA_LABEL = "irma_code"


@dataclass(frozen=True)
class Relevance:
    """Criteria that must all hold, such as `label`, `modality+anatomy`, `irma:TDA` or `anatomy+grade`.

    keys: labels whose values must be equal. axes: of the IRMA code in the label `irma_code` that must be equal.
    grade: the label with the grade, where relevance is graded: the gain of an answer is the spread of the
    collection's grades minus the difference of the two grades, and 0 where another criterion fails.
    """

    text: str
    keys: tuple[str, ...] = ()
    axes: str = ""
    grade: str | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """Labels that an image must have to be judged."""
        irma = (IRMA_LABEL,) if self.axes else ()
        return (*self.keys, *irma, *((self.grade,) if self.grade else ()))

    def group(self, labels: Labels) -> tuple[str, ...] | None:
        """Return the values that must be equal for relevance, without the grade; None if `labels` leave them open.

        An axis of a code that contains `*` (don't know) is open, and so is a clutter code.
        """
        if any(not labels.get(key) for key in self.needs):
            return None
        parts = [labels[key] for key in self.keys]
        if self.axes:
            code = codes.parse_code(labels[IRMA_LABEL], wildcards=True)
            if code == codes.CLUTTER:
                return None
            parts_of_code = [code.split("-")[AXES.index(axis)] for axis in self.axes]
            if any("*" in part for part in parts_of_code):
                return None
            parts.append("-".join(parts_of_code))
        return tuple(parts)

    def grade_of(self, labels: Labels) -> int | None:
        """Return the grade as a whole number; None if there is none or relevance is not graded."""
        if self.grade is None or not labels.get(self.grade):
            return None
        try:
            grade = float(labels[self.grade])
            if grade == int(grade):
                return int(grade)
            raise ValueError
        except (ValueError, OverflowError):
            raise InvalidInput(
                f"{self.grade}={labels[self.grade]!r} is not a whole number; relevance by grade needs "
                "grades such as 0, 1, 2"
            ) from None

    def class_of(self, labels: Labels) -> tuple[str, ...] | None:
        """Return the values of all criteria: equal for images of the greatest relevance to each other."""
        group, grade = self.group(labels), self.grade_of(labels)
        return group if group is None or grade is None else (*group, f"{self.grade} {grade}")

    def in_words(self, spread: int) -> str:
        """Describe the relevance in sentences; `spread` is the largest minus the smallest grade of the collection."""
        agree = list(self.keys)
        if self.axes:
            axes = [codes.AXES[AXES.index(axis)] for axis in self.axes]
            agree.append(f"the {', '.join(axes)} of {IRMA_LABEL}")
        same = f"An answer is relevant when it agrees with the query in {' and '.join(agree)}."
        if self.grade is None:
            return same
        graded = f"The gain of an answer is {spread} minus the difference of the two {self.grade} values"
        return f"{graded}, and 0 where the two differ in {' or '.join(agree)}." if agree else f"{graded}."


def parse_relevance(text: str) -> Relevance:
    """Parse a relevance; raise InvalidInput, which names the part that is wrong.

    Criteria are joined by `+`: a label's name (`label:NAME` if the name is grade), `irma:` with any of the
    axes T, D, A and B, and at most one `grade`, or `grade:NAME` for grades in another label.
    """
    keys: list[str] = []
    axes, grade = "", None
    for part in text.split("+"):
        kind, colon, name = (piece.strip() for piece in part.partition(":"))
        if not kind or (colon and not name):
            raise InvalidInput(
                f"relevance '{text}' has an empty part; write label, modality+anatomy, irma:TDAB ..."
            )
        if kind == "irma":
            if not name or set(name.upper()) - set(AXES):
                raise InvalidInput(
                    f"relevance '{text}': irma: is followed by axes out of T, D, A, B, for instance irma:TDAB"
                )
            axes += name.upper()
        elif kind == "grade":
            if grade:
                raise InvalidInput(f"relevance '{text}' names two grades; only one is possible")
            grade = name or "grade"
        elif colon and kind != "label":
            raise InvalidInput(f"relevance '{text}': before a colon use label, irma or grade, not {kind}")
        else:
            keys.append(name or kind)
    return Relevance(text, tuple(dict.fromkeys(keys)), "".join(a for a in AXES if a in axes), grade)


Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Candidates:
    """n images by ascending number; a position is 0 to n - 1.

    generation: of the collection that they were read from. numbers: (n,) int64, of the collection.
    """

    generation: int
    numbers: NDArray[np.int64]
    records: Sequence[Record]

    def __len__(self) -> int:
        return len(self.records)

    def positions(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the positions of images by number; all of them must be candidates."""
        return np.searchsorted(self.numbers, numbers).astype(np.int32)


def select_candidates(collection: Collection, where: Sequence[str] = ()) -> Candidates:
    """Return the live images that fulfil every condition of `where`; raise InvalidInput if there is none."""
    view = collection.view()
    rows = collection.select_rows(view, collection.conditions(where))
    selected = set((view.gallery.ids if rows is None else view.gallery.ids[rows]).tolist())
    pairs = [(number, record) for number, record in collection.iterate() if number in selected]
    if not pairs:
        which = f" with {' and '.join(where)}" if where else ""
        raise InvalidInput(f"{collection.folder} has no image{which}; there is nothing to find")
    numbers = np.array([number for number, _ in pairs], np.int64)
    return Candidates(view.generation, numbers, [record for _, record in pairs])


def encode_values(values: Iterable[Value | None], codes: dict[Value, int]) -> NDArray[np.int64]:
    """Return values as integers, equal for equal values and -1 for None; `codes` collects new values."""
    return np.array([-1 if v is None else codes.setdefault(v, len(codes)) for v in values], np.int64)
