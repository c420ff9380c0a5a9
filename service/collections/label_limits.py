"""Checks of the labels that requests set: their form, and bounds of an image and of the keys of a collection.

The command line has none. What is above a bound already stays, and can be read, replaced and removed.
"""

from collections.abc import Collection as Ids
from collections.abc import Mapping

from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.records.filter_conditions import parse_filter
from service.access.caller import current_rights
from service.http.problems import NotAllowed

MAX_LABELS = 200  # of an image
MAX_LABEL_BYTES = 64 * 2**10  # of its keys and values
MAX_KEYS = 2000  # of a collection
KEY_CHARACTERS, VALUE_CHARACTERS = 100, 1000
OPERATORS = "=!<>"


def check_labels(labels: Mapping[str, str | None]) -> None:
    """Raise InvalidInput if `labels` could not be used in filters, or name a patient."""
    for key, value in labels.items():
        if not key.strip() or key != key.strip() or len(key) > KEY_CHARACTERS or set(key) & set(OPERATORS):
            raise InvalidInput(
                f"labels: a key has 1 to {KEY_CHARACTERS} characters, none of {' '.join(OPERATORS)}, "
                "and no space at either end"
            )
        if key == "patient":
            raise InvalidInput(
                "labels: the patient of an image cannot be changed; delete it and add it again"
            )
        if value is not None and not 1 <= len(value) <= VALUE_CHARACTERS:
            raise InvalidInput(f"labels: the value of {key} must have 1 to {VALUE_CHARACTERS} characters")
        if value is not None and value != value.strip():  # no filter would find it
            raise InvalidInput(f"labels: the value of {key} begins or ends with white space; leave it out")


def check_own_filter(labels: Mapping[str, str | None]) -> None:
    """Raise NotAllowed if `labels` would change which callers see the image."""
    rights = current_rights()
    keys = {parse_filter(text).key for text in rights.where} if rights else set()
    if decisive := sorted(keys & labels.keys()):
        raise NotAllowed(f"labels: this token is limited by the label {decisive[0]}, so it cannot change it")


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
