"""The filters that the page offers: the labels there are, and their most frequent values."""

from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from cbir.store import Collection

MOST_KEYS = 16
MOST_VALUES = 24
SEPARATOR = ";"  # stands between conditions on the page, so a value with it cannot be offered

Values = list[tuple[str, int]]


class Offered(NamedTuple):
    """What was counted at one generation of a collection."""

    generation: int
    keys: dict[str, Values]


_counted: WeakKeyDictionary[Collection, Offered] = WeakKeyDictionary()
_lock = Lock()


def offered(collection: Collection) -> dict[str, Values]:
    """The keys that tell images apart, each with its most frequent values and how many images have them.

    Counted again only when the collection has changed: a page of a large one is not to wait for it every time.
    """
    generation = collection.generation()
    with _lock:
        known = _counted.get(collection)
        if known is None or known.generation != generation:
            known = _counted[collection] = Offered(generation, _count(collection))
        return known.keys


def _count(collection: Collection) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for key, images in list(collection.label_keys().items())[:MOST_KEYS]:
        values = collection.label_values(key, MOST_VALUES)
        kept = [(value, count) for value, count in values if SEPARATOR not in key + value]
        names_each = images > 1 and values[0][1] == 1  # a number of its own for every image is no filter
        if kept and not names_each:
            found[key] = kept
    return found
