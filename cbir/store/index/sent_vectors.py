"""Vectors that an index sends with its answers, kept for the rest of a search."""

from collections.abc import Sequence

import numpy as np

from cbir.gallery.vector_blocks import Floats
from cbir.store.index.current_index import OpenedEdition
from cbir.store.index.port import Neighbours, Numbers


class SentVectors:
    """Normalised vectors of the images that an edition has answered with. Thread-safe."""

    def __init__(self) -> None:
        self._latest: tuple[OpenedEdition, Numbers, Floats] | None = None

    def keep(self, edition: OpenedEdition, answers: Sequence[Neighbours]) -> None:
        """Keep the vectors of answers, beside those of earlier answers of the same edition."""
        sent = [(each.numbers, each.vectors) for each in answers if each.vectors is not None]
        if not sent:
            return
        latest = self._latest
        if latest is not None and latest[0] is edition:
            sent.append((latest[1], latest[2]))
        numbers, first = np.unique(np.concatenate([part[0] for part in sent]), return_index=True)
        self._latest = edition, numbers, np.concatenate([part[1] for part in sent])[first]

    def among(self, edition: OpenedEdition, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return those of the ascending `numbers` whose vectors of an edition are known, and these (n, d)."""
        latest = self._latest
        if latest is None or latest[0] is not edition:
            return np.empty(0, np.int64), np.empty((0, edition.statistics.dimensions), np.float32)
        rows = np.flatnonzero(np.isin(latest[1], numbers))
        return latest[1][rows], latest[2][rows]
