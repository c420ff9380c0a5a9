"""Cache of the graders of open collections."""

from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from cbir.errors import InvalidInput, NotFound
from cbir.store import Collection
from service.collections.app_state import AppState

if TYPE_CHECKING:
    from cbir.learn.grading.grader import Grader


MAX_GRADERS = 64


class GraderCache:
    """Keeps the graders last used, one per collection, or limited view of it, and grade column. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._graders: OrderedDict[tuple[int, str], Grader] = OrderedDict()

    def get(self, collection: Collection, column: str | None) -> "Grader":
        """Return the grader of `collection` for the label `column`; None means the only one.

        Raises NotFound if the collection has no grade model for it, InvalidInput if there are several and `column`
        is None.
        """
        from cbir.learn.grading.grader import Grader  # imports scikit-learn: only for requests that grade

        columns = collection.graded_labels()
        if column is None and len(columns) > 1:
            raise InvalidInput(f"grade_column: one of {', '.join(columns)} is needed")
        if not columns or column not in (None, *columns):
            existing = f"; there are: {', '.join(columns)}" if columns else ""
            raise NotFound(
                f"the collection has no grade model for such grades; `cbir grade fit` fits one{existing}"
            )
        key = id(collection), column or columns[0]
        with self._lock:
            grader = self._graders.pop(key, None) or Grader(
                collection, key[1]
            )  # keeps the collection, and so its id
            self._graders[key] = grader
            if len(self._graders) > MAX_GRADERS:
                self._graders.popitem(last=False)
        return grader

    def forget(self, folder: Path) -> None:
        """Drop the graders of the collection in `folder`, and with them the collection."""
        with self._lock:
            for key in [key for key, grader in self._graders.items() if grader.collection.folder == folder]:
                del self._graders[key]


def grader_cache(state: AppState) -> GraderCache:
    """Return the graders of the collections of a service, as a part of its state."""
    cache = GraderCache()
    state.on_replaced.append(cache.forget)
    return cache
