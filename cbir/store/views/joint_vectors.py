"""Vectors of a collection in the space that an image-text model compares images and texts in.

A projection is fitted to images alone; texts lie elsewhere in the space, and lose what tells them apart when they are
projected. So texts are compared with the encoder's raw values, scaled to length 1.
"""

from threading import Lock

import numpy as np

from cbir.gallery.gallery import Gallery
from cbir.gallery.vector_blocks import Floats, VectorBlocks
from cbir.store.base.profile import Profile
from cbir.store.base.projection import SHORTEST
from cbir.store.base.vector_format import vector_format
from cbir.store.records.database import Database
from cbir.store.views.collection_view import View, vector_pages
from cbir.system.cancellation import run_to_end


def unit_vectors(raw: Floats) -> Floats:
    """Return vectors (n, e) scaled to length 1; one without a direction becomes 0."""
    lengths = np.linalg.norm(raw, axis=-1, keepdims=True)
    return np.asarray(raw / np.maximum(lengths, np.float32(SHORTEST)), np.float32)


class JointVectors:
    """Vectors of length 1 of the images of a view, read with the first query by text. Thread-safe."""

    def __init__(self, engine: Database) -> None:
        self._engine = engine
        self._lock = Lock()
        self._loaded: tuple[Gallery, VectorBlocks] | None = None  # gallery of a view, and its vectors

    def of_view(self, view: View, profile: Profile, values: int) -> VectorBlocks:
        """Return the vectors (n, values) of the rows of a view; a row whose image was deleted has 0.

        Parameters
        ----------
        view : View
            View of the collection.
        profile : Profile
            Its profile.
        values : int
            Number of leading values that the encoder gives.
        """
        loaded = self._loaded
        if loaded and loaded[0] is view.gallery:
            return loaded[1]
        return run_to_end(lambda: self._load(view.gallery, profile, values), self._lock)

    def _load(self, gallery: Gallery, profile: Profile, values: int) -> VectorBlocks:
        if self._loaded and self._loaded[0] is gallery:
            return self._loaded[1]
        ids, blocks = gallery.ids, list[Floats]()
        if self._loaded:
            before, kept = self._loaded
            if np.array_equal(before.ids, ids[: len(before)]):  # images were added to these
                blocks = list(kept.blocks)
        start = sum(map(len, blocks))
        added = np.zeros((len(ids) - start, values), np.float32)
        after = int(ids[start - 1]) if start else 0
        with self._engine.connect() as connection:
            for raw, numbers in vector_pages(connection, after, vector_format(profile)):
                known = np.isin(numbers, ids)  # others were added since the view was made
                rows = np.searchsorted(ids, numbers[known]) - start
                added[rows] = unit_vectors(raw[known, :values])
        if len(blocks) > 1:  # two at most: the first, and what was added since
            blocks[1:] = [np.concatenate([*blocks[1:], added])]
        elif len(added) or not blocks:
            blocks.append(added)
        self._loaded = gallery, VectorBlocks(tuple(blocks))
        return self._loaded[1]
