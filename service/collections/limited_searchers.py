"""Searchers that see a part of a collection, by label filter."""

from collections import OrderedDict
from threading import Lock

from cbir.search import Searcher
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter

MAX_FILTERS = 32  # each holds the rows that it matches


class LimitedSearchers:
    """Searchers of the last label filters used with a collection. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._searchers: OrderedDict[tuple[str, ...], tuple[Searcher, Searcher]] = OrderedDict()

    def get(self, whole: Searcher, where: tuple[str, ...]) -> Searcher:
        """Return a searcher of the images of `whole` for which the conditions `where` hold."""
        with self._lock:
            of, limited = self._searchers.pop(where, (None, None))
            if of is not whole or limited is None:
                conditions = [parse_filter(text) for text in where]
                limited = whole.over(LimitedCollection(whole.collection, conditions))
                limited.collection.close_when_unused()
            self._searchers[where] = whole, limited
            if len(self._searchers) > MAX_FILTERS:
                self._searchers.popitem(last=False)
            return limited

    def clear(self) -> None:
        """Drop all of them, since the collection is opened again."""
        with self._lock:
            self._searchers.clear()
