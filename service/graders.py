"""The graders of the collections that are open."""

from threading import Lock
from typing import TYPE_CHECKING

from cbir.errors import InvalidInput, NotFound
from cbir.store import Collection, gradings

if TYPE_CHECKING:
    from cbir.grading.grader import Grader


class Graders:
    """Keeps what graders have read, for each label of grades. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[tuple[str, str], Grader] = {}

    def of(self, collection: Collection, column: str | None) -> "Grader":
        """The grader of a label; None for the only one. Raises NotFound where nothing was learnt from it.

        InvalidInput where there are several and none is named.
        """
        from cbir.grading.grader import Grader  # scikit-learn: only where grades are asked for

        with collection.engine.connect() as connection:
            columns = gradings.columns(connection)
        if column is None and len(columns) > 1:
            raise InvalidInput(f"grade_column: one of {', '.join(columns)} is needed")
        if not columns or column not in (None, *columns):
            known = f"; there are: {', '.join(columns)}" if columns else ""
            raise NotFound(f"the collection has learnt no such grades, which `cbir grade fit` does{known}")
        key = str(collection.folder), column or columns[0]
        with self._lock:
            found = self._kept.get(key)
            if found is None or found.collection is not collection:
                found = self._kept[key] = Grader(collection, key[1])
        return found
