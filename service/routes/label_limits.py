"""Bounds of the labels of an image, and of the keys of a collection, that requests may reach together.

The command line has none. What is above a bound already stays, and can be read, replaced and removed.
"""

from collections.abc import Collection as Ids
from collections.abc import Mapping

from cbir.errors import InvalidInput
from cbir.store import Collection

MAX_LABELS = 200  # of an image
MAX_LABEL_BYTES = 64 * 2**10  # of its keys and values
MAX_KEYS = 2000  # of a collection


def check_label_sum(changed: Mapping[str, str | None], before: Mapping[str, str] | None = None) -> None:
    """Raise InvalidInput if an image with the labels `before` would have more than it may once some are `changed`."""
    before = before or {}
    after = {key: value for key, value in {**before, **changed}.items() if value is not None}
    if len(after) > max(MAX_LABELS, len(before)):
        raise InvalidInput(
            f"labels: an image has at most {MAX_LABELS} labels, and this would be {len(after)}; remove some"
        )
    if _size(after) > max(MAX_LABEL_BYTES, _size(before)):
        raise InvalidInput(
            f"labels: the labels of an image have at most {MAX_LABEL_BYTES} bytes together; remove or shorten some"
        )


def check_label_change(collection: Collection, ids: Ids[str], changed: Mapping[str, str | None]) -> None:
    """Check the labels that images would have after a change; call it while no one else can write.

    Parameters
    ----------
    collection : Collection
    ids : collection of str
        Images of the collection.
    changed : mapping
        New values by key, None for labels that are removed.

    Raises
    ------
    InvalidInput
        If an image would have too many labels, or the collection too many keys.
    """
    for record in collection.records_by_id(ids).values():
        check_label_sum(changed, record.labels)
    check_new_keys(collection, [key for key, value in changed.items() if value is not None])


def check_new_keys(collection: Collection, keys: Ids[str]) -> None:
    """Raise InvalidInput if labels with these keys would give the collection more keys than it may have."""
    if all(_is_known(collection, key) for key in keys):  # as nearly always; all keys take longer to list
        return
    present = collection.label_keys().keys()
    new = set(keys) - present
    if new and len(present) + len(new) > MAX_KEYS:
        raise InvalidInput(
            f"labels: {min(new)} would be a new key, and a collection has at most {MAX_KEYS}; use one of "
            "those that `labels` lists"
        )


def _is_known(collection: Collection, key: str) -> bool:
    try:
        collection.conditions([f"{key}?"])
    except InvalidInput:
        return False
    return True


def _size(labels: Mapping[str, str]) -> int:
    return sum(len(f"{key}{value}".encode(errors="surrogatepass")) for key, value in labels.items())
