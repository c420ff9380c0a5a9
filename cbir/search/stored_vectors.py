"""Vectors of images of a collection, by their ids."""

from collections.abc import Sequence

import numpy as np

from cbir.errors import NotFound
from cbir.gallery.vector_blocks import Floats
from cbir.store import Collection


def read_vectors(collection: Collection, image_ids: Sequence[str], *, raw: bool = False) -> Floats:
    """Return the vectors (n, d) float32 of some images, in the order of their ids.

    Parameters
    ----------
    collection : Collection
    image_ids : sequence of str
        At most some hundred ids.
    raw : bool
        Return the values of the descriptor; else the normalised values that searches compare.

    Raises
    ------
    NotFound
        For an unknown id.
    """
    numbers = collection.numbers_of(image_ids)
    view = collection.view()
    if not len(numbers):
        return np.empty((0, view.gallery.dimensions), np.float32)
    if raw:
        return np.stack([collection.vector(image_id) for image_id in image_ids])
    rows = np.searchsorted(view.gallery.ids, numbers)
    for image_id, number, row in zip(image_ids, numbers, rows, strict=True):
        if row == len(view.gallery) or view.gallery.ids[row] != number:  # deleted meanwhile
            raise NotFound(f"there is no image {image_id} in the collection")
    return view.gallery.vectors(rows)
