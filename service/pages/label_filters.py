"""Label filters offered on the search page: keys and their most frequent values."""

from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from cbir.store import Collection

MAX_KEYS = 16
MAX_VALUES = 24
SEPARATOR = ";"  # between conditions on the page, so values that contain it are not offered

Values = list[tuple[str, int]]


class CountedLabels(NamedTuple):
    """Label counts at one generation of a collection."""

    generation: int
    values_by_key: dict[str, Values]


_cache: WeakKeyDictionary[Collection, CountedLabels] = WeakKeyDictionary()
_lock = Lock()


def label_filters_of(collection: Collection) -> dict[str, Values]:
    """Return the keys that distinguish images, each with its most frequent values and their image counts.

    Counts are cached until `collection` changes, since counting in a large collection takes a while.
    """
    generation = collection.generation()
    with _lock:
        cached = _cache.get(collection)
        if cached is None or cached.generation != generation:
            cached = _cache[collection] = CountedLabels(generation, _count(collection))
        return cached.values_by_key


def _count(collection: Collection) -> dict[str, Values]:
    counts: dict[str, Values] = {}
    for key, images in list(collection.label_keys().items())[:MAX_KEYS]:
        values = collection.label_values(key, MAX_VALUES)
        usable = [(value, count) for value, count in values if SEPARATOR not in key + value]
        is_identifier = images > 1 and values[0][1] == 1  # a different value for each image
        if usable and not is_identifier:
            counts[key] = usable
    return counts
