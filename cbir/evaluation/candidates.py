"""Images of a collection that a search may return, with the labels that decide relevance."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.store import Collection, Record

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
