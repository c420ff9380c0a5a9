"""Rows of the filters that were used last: at 100,000 images the database takes longer than the search."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from cbir.gallery.vector_blocks import Rows
from cbir.store.records.filter_conditions import Condition

KEPT = 8  # filters
BYTES = 32 * 2**20  # of all filters but the last; one that half of a million images pass has 4 MB

Conditions = tuple[Condition, ...]


class FilterCache:
    """Rows of one view by the conditions that they fulfil, the last few. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: OrderedDict[Conditions, Rows] = OrderedDict()

    def rows(self, conditions: Conditions, read: Callable[[], Rows]) -> Rows:
        """Return the rows of `conditions`; `read` reads them where they are not kept."""
        with self._lock:
            if conditions in self._rows:
                self._rows.move_to_end(conditions)
                return self._rows[conditions]
        rows = read()
        rows.flags.writeable = False
        with self._lock:
            self._rows[conditions] = rows
            while len(self._rows) > KEPT or (len(self._rows) > 1 and self._size() > BYTES):
                self._rows.popitem(last=False)
        return rows

    def _size(self) -> int:
        return sum(rows.nbytes for rows in self._rows.values())
