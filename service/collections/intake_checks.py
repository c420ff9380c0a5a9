"""The intake checks of the open collections of the service."""

from threading import Lock
from weakref import WeakKeyDictionary

from cbir.ingest.intake_check import IntakeCheck
from service.collections.mounted_collection import CollectionHandle

_checks: WeakKeyDictionary[object, IntakeCheck] = WeakKeyDictionary()
_lock = Lock()


def intake_check(handle: CollectionHandle) -> IntakeCheck:
    """Return the check of the collection that a handle has open; what it compares with is read once."""
    collection = handle.whole_searcher().collection
    with _lock:
        check = _checks.get(collection)
        if check is None:
            check = _checks[collection] = IntakeCheck(collection, handle.settings.intake)
        return check
