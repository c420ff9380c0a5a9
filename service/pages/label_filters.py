"""Label filters offered on the search page: keys and their most frequent values."""

from threading import Lock
from weakref import WeakKeyDictionary

from cbir.store import Collection

MAX_KEYS = 16
MAX_VALUES = 24
SEPARATOR = ";"  # between conditions on the page, so values that contain it are not offered

Values = list[tuple[str, int]]


# the label counts of each collection at one generation
_cache: WeakKeyDictionary[Collection, tuple[int, dict[str, Values]]] = WeakKeyDictionary()
_lock = Lock()


def label_filters_of(collection: Collection) -> dict[str, Values]:
    """Return the keys that distinguish images, each with its most frequent values and their image counts.

    Counts are cached until `collection` changes, since counting in a large collection takes a while.
    """
    generation = collection.generation()
    with _lock:
        cached = _cache.get(collection)
        if cached is None or cached[0] != generation:
            cached = _cache[collection] = generation, _count(collection)
        return cached[1]


def _count(collection: Collection) -> dict[str, Values]:
    counts: dict[str, Values] = {}
    for key, images in list(collection.label_keys().items())[:MAX_KEYS]:
        values = collection.label_values(key, MAX_VALUES)
        usable = [(value, count) for value, count in values if SEPARATOR not in key + value]
        is_identifier = images > 1 and values[0][1] == 1  # a different value for each image
        if usable and not is_identifier:
            counts[key] = usable
    return counts
