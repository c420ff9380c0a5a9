"""Severity as a label of collection images, for filters such as `cbir search --where "severity>=1.5"`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cbir.errors import InvalidInput
from cbir.store import Collection

LABEL = "severity"
DECIMALS = 4


def write_severity(
    collection: Collection, ids: Sequence[str], values: ArrayLike, who: str = "command line"
) -> int:
    """Label images with their severity, in one transaction.

    Vectors and snapshots are unchanged; readers see the labels in their next search. Images that were deleted in the
    meantime are skipped.

    Parameters
    ----------
    collection : Collection
    ids : sequence of str
        Ids of n images.
    values : (n,) float
        Severities.
    who : str
        Author in the history.

    Returns
    -------
    int
        Number of changed labels.

    Raises
    ------
    InvalidInput
        If a severity is not finite or an id occurs twice.
    CollectionBusy
        If another process writes to the collection.
    """
    severities = np.asarray(values, np.float64)
    if severities.shape != (len(ids),) or not np.isfinite(severities).all():
        raise InvalidInput(f"{len(ids)} images need as many finite severities")
    if len(set(ids)) != len(ids):
        raise InvalidInput("an image id occurs twice")
    with collection.writer(who) as writer:
        texts = (f"{value:.{DECIMALS}f}" for value in (severities.round(DECIMALS) + 0.0).tolist())  # no -0
        return writer.label_images(LABEL, dict(zip(ids, texts, strict=True)))


def severity_by_id(collection: Collection) -> dict[str, float]:
    """Return the severity label of the images in `collection` that have one, by image id."""
    return collection.numeric_labels(LABEL)
