"""Immutable gallery of a collection's vectors: distances of a query to all of them."""

from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.flat_index import FlatIndex, fill_squared_distances
from cbir.gallery.knn import NearestDistances, without_snapshot
from cbir.gallery.knn_graph import Neighbourhood
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks, spread_rows
from cbir.gallery.whitening import SAMPLE, Space, SpaceCache, fit_space, plain_space
from cbir.system.cancellation import checkpoint, run_to_end
from cbir.system.threads import cores, for_each

ROWS_PER_THREAD = 32_768  # for fewer, a thread costs more than it saves
MOST = 0.6  # share of the rows from which computing all is faster than copying those

_fitting = Lock()


@dataclass(frozen=True, eq=False)
class Gallery(VectorBlocks):
    """Vectors of a collection. The first block usually views the memory-mapped snapshot, the last is what was added.

    ids: (n,) int64, strictly ascending: image number of each row.
    parts: start and stop of each part of the descriptor; empty if it has one kind of values.
    projected: the vectors are projected to learned directions, and compared as they are.
    neighbourhood: k-NN graph; None without a snapshot.
    index: FAISS index of the first rows, those of a snapshot; None without one.
    fitted_space: whitened space of a larger gallery that these vectors are candidates of; None: of these.
    """

    ids: NDArray[np.int64]
    parts: tuple[tuple[int, int], ...] = ()
    neighbourhood: Neighbourhood | None = None
    projected: bool = False
    index: FlatIndex | None = None
    fitted_space: Space | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def squared_norms(self) -> Floats:
        """(n,) float32: |x|^2 of every row."""
        norms = np.empty(len(self), np.float32)
        for where, vectors in self.chunks():
            checkpoint()
            np.einsum("ij,ij->i", vectors, vectors, out=norms[where])
        return norms

    @cached_property
    def space(self) -> Space:
        """Whitened space for comparing neighbours: the neighbourhood's, or fitted to these vectors."""
        if self.neighbourhood is not None:
            return self.neighbourhood.space
        if self.fitted_space is not None:
            return self.fitted_space
        return self.space_of(np.arange(len(self)))

    @cached_property
    def nearest_distances(self) -> NearestDistances:
        """Distances of images to their nearest others: of the snapshot, or of these images without one."""
        if self.neighbourhood is not None:
            return self.neighbourhood.nearest_distances(self)
        return without_snapshot(self)

    def space_of(self, rows: Rows) -> Space:
        """Return a whitened space fitted to `rows` alone, of which at most SAMPLE are read; the last few are kept."""
        if self.projected:
            return plain_space(self.dimensions)
        sampled = rows[spread_rows(len(rows), SAMPLE)]
        return self._spaces.get(sampled) or run_to_end(partial(self._fit_space, sampled), _fitting)

    def _fit_space(self, sampled: Rows) -> Space:
        space = self._spaces.get(sampled)  # fitted while this query waited for its turn
        if space is None:
            space = fit_space(self.vectors(sampled), self.parts)
            self._spaces.put(sampled, space)
        return space

    @cached_property
    def _spaces(self) -> SpaceCache:
        return SpaceCache()

    def distances(self, query: Floats, rows: Rows | None = None) -> Floats:
        """Return Euclidean distances (m,) float32 of `query` (d,) to all rows or to ascending `rows`, by FAISS.

        They are sums of squared differences: 0 for an equal vector.
        """
        if rows is not None and len(rows) >= MOST * len(self):
            return self.distances(query)[rows]
        total = len(self) if rows is None else len(rows)
        squared = np.empty(total, np.float32)

        def compare(where: slice, vectors: Floats) -> None:
            fill_squared_distances(query, vectors, squared[where])

        for_each(self.chunks(rows), compare, min(cores(), total // ROWS_PER_THREAD))
        return np.sqrt(squared, out=squared)
