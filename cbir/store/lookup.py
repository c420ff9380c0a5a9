"""Images of a collection by their ids and by what they show."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from cbir.errors import NotFound
from cbir.store.collection import Collection
from cbir.store.schema import images


def numbers_of(collection: Collection, image_ids: Sequence[str]) -> NDArray[np.int64]:
    """The collection's own numbers (j,) of at most some hundred images, in their order; raises NotFound."""
    with collection.engine.connect() as connection:
        query = select(images.c.image_id, images.c.number).where(images.c.image_id.in_(image_ids))
        found = {row.image_id: row.number for row in connection.execute(query)}
    for image_id in image_ids:
        if image_id not in found:
            raise NotFound(f"there is no image {image_id} in the collection")
    return np.array([found[image_id] for image_id in image_ids], np.int64)


def showing(collection: Collection, contents: Sequence[str]) -> NDArray[np.int64]:
    """Numbers of all images that show one of these pictures, by their content hashes."""
    with collection.engine.connect() as connection:
        query = select(images.c.number).where(images.c.content_hash.in_(contents))
        return np.fromiter(connection.scalars(query), np.int64)
