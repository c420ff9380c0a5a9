"""The images of a collection that can be answers, with what decides about relevance."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.store import Collection, Record
from cbir.store.filter_conditions import parse_filter

Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Candidates:
    """n images in the order of their numbers; a place is 0..n-1.

    generation: of the collection they were read from. numbers: (n,) int64, the collection's own.
    """

    generation: int
    numbers: NDArray[np.int64]
    records: Sequence[Record]

    def __len__(self) -> int:
        return len(self.records)

    def places(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Places of images by number, all of which are here."""
        return np.searchsorted(self.numbers, numbers).astype(np.int32)


def select_candidates(collection: Collection, where: Sequence[str] = ()) -> Candidates:
    """The live images for which every condition of `where` holds; raises InvalidInput where there is none."""
    view = collection.view()
    rows = collection.select_rows(view, [parse_filter(text) for text in where])
    wanted = set((view.gallery.ids if rows is None else view.gallery.ids[rows]).tolist())
    found = [(number, record) for number, record in collection.iterate() if number in wanted]
    if not found:
        which = f" with {' and '.join(where)}" if where else ""
        raise InvalidInput(f"{collection.folder} has no image{which}; there is nothing to find")
    numbers = np.array([number for number, _ in found], np.int64)
    return Candidates(view.generation, numbers, [record for _, record in found])


def encode_values(values: Iterable[Value | None], known: dict[Value, int]) -> NDArray[np.int64]:
    """Values as numbers, equal for equal values, -1 for None; `known` keeps the numbers given so far."""
    return np.array([-1 if v is None else known.setdefault(v, len(known)) for v in values], np.int64)
