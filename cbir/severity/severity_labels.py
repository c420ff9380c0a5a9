"""The learned severity as a label of a collection's images: `cbir search --where "severity>=1.5"` finds by it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cbir.errors import InvalidInput
from cbir.store import Collection

LABEL = "severity"
DIGITS = 4  # after the point


def write_severity(
    collection: Collection, ids: Sequence[str], values: ArrayLike, who: str = "command line"
) -> int:
    """Label images by their ids with severities (n,), in one transaction; how many labels changed.

    Vectors and snapshots stay as they are; readers see the labels with their next search. Images that were deleted
    meanwhile are passed over. who: whom the history names. Raises InvalidInput for what is no finite number, and
    CollectionBusy where another process writes.
    """
    found = np.asarray(values, np.float64)
    if found.shape != (len(ids),) or not np.isfinite(found).all():
        raise InvalidInput(f"{len(ids)} images need as many severities, finite numbers")
    if len(set(ids)) != len(ids):
        raise InvalidInput("an image is named twice")
    with collection.writer(who) as writer:
        texts = (f"{value:.{DIGITS}f}" for value in (found.round(DIGITS) + 0.0).tolist())  # no -0
        return writer.label_images(LABEL, dict(zip(ids, texts, strict=True)))


def severity_by_id(collection: Collection) -> dict[str, float]:
    """The severity of every image that has one, by its id."""
    return collection.numeric_labels(LABEL)
