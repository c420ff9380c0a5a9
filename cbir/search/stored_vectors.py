"""Vectors of images of a collection, by their ids."""

from collections.abc import Sequence

import numpy as np

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
    statistics = collection.normalisation()
    if not image_ids:
        return np.empty((0, statistics.dimensions), np.float32)
    vectors = np.stack([collection.vector(image_id) for image_id in image_ids])
    return vectors if raw else statistics.normalise(vectors)
