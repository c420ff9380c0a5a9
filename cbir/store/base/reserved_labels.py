"""Values of labels as numbers, and keys that only the collection itself may use."""

import math
from collections.abc import Iterable

from cbir.errors import InvalidInput

# Key of the row of the table `labels` that holds the day; no label of an image has this key.
STUDY_DAY = "study_day"

# Key of the row of the table `labels` that holds the place, also an unknown one, of a DICOM image.
SLICE_PLACE = "slice_place"

RESERVED = {STUDY_DAY: "the days of studies", SLICE_PLACE: "the places of slices in their series"}


def require_other_keys(keys: Iterable[str]) -> None:
    """Raise InvalidInput if one of the keys of labels is reserved."""
    for key in keys:
        if key in RESERVED:
            raise InvalidInput(f"the label {key} is reserved for {RESERVED[key]}; choose another key")


def as_number(text: str) -> float | None:
    """Convert a label's value to a finite number; None if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
