"""Keys of rows of the table `labels` that hold facts of an image which are no labels: no filter finds them."""

from collections.abc import Iterable

from cbir.errors import InvalidInput
from cbir.store.base.stored_place import SLICE_PLACE
from cbir.store.base.study_day import STUDY_DAY

RESERVED = {STUDY_DAY: "the days of studies", SLICE_PLACE: "the places of slices in their series"}


def require_other_keys(keys: Iterable[str]) -> None:
    """Raise InvalidInput if one of the keys of labels is reserved."""
    for key in keys:
        if key in RESERVED:
            raise InvalidInput(f"the label {key} is reserved for {RESERVED[key]}; choose another key")
