"""The nearest neighbours of every image of a snapshot: derived like it, and kept in a file beside it."""

from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.whitening import Space

NEAREST = 8  # neighbours kept of each image
EXACT = 10_000  # images up to which all are compared with all
PROBED = 16  # lists of the inverted file that a search looks into
BLOCK = 2048  # rows placed at a time: memory shall hold little besides the index

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class NearestNeighbours:
    """n images, each with its k nearest others, nearest first.

    rows: (n, k) int32; -1 where there are fewer. squared: (n, k) float32, squared distances within the space, from
    0 to 4, infinite where there is none. lengths: (n,) float32, see `Space.place`.
    """

    space: Space
    rows: NDArray[np.int32]
    squared: Floats
    lengths: Floats


def find_neighbours(vectors: Floats, fitted: Space) -> NearestNeighbours:
    """The neighbours of normalised vectors (n, d) among themselves; by an inverted file where there are many.

    Deterministic. In a large collection some two in a hundred are not the nearest but nearly so.
    """
    count = len(vectors)
    lengths = np.empty(count, np.float32)
    rows = np.full((count, NEAREST), -1, np.int32)
    squared = np.full((count, NEAREST), np.inf, np.float32)
    if count < 2:
        lengths[:] = fitted.place(vectors)[1]
        return NearestNeighbours(fitted, rows, squared, lengths)
    # One thread where that is enough: a process forked after faiss has used several would wait for them forever.
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1 if count <= EXACT else threads)
    try:
        _fill(vectors, fitted, lengths, rows, squared)
    finally:
        faiss.omp_set_num_threads(threads)
    return NearestNeighbours(fitted, rows, squared, lengths)


def _fill(vectors: Floats, fitted: Space, lengths: Floats, rows: NDArray[np.int32], squared: Floats) -> None:
    """Fill the arrays of `Neighbours` for two vectors or more."""
    count = len(vectors)
    index = _index(vectors, fitted)
    for start in range(0, count, BLOCK):
        block = slice(start, min(start + BLOCK, count))
        lengths[block] = fitted.place(vectors[block])[1]
        if count > EXACT:
            index.add(fitted.place(vectors[block])[0])
    kept = min(NEAREST, count - 1)
    for start in range(0, count, BLOCK):
        block = slice(start, min(start + BLOCK, count))
        distances, found = index.search(fitted.place(vectors[block])[0], kept + 1)
        own = np.arange(block.start, block.stop)[:, None]
        # An image is its own nearest, unless copies of it come first.
        order = np.argsort(found == own, axis=1, kind="stable")[:, :kept]
        rows[block, :kept] = np.take_along_axis(found, order, axis=1)
        squared[block, :kept] = np.take_along_axis(distances, order, axis=1)
    squared[rows < 0] = np.inf
    np.maximum(squared, 0.0, out=squared)


def _index(vectors: Floats, fitted: Space) -> faiss.Index:
    """A flat index with all vectors, or an inverted file that is trained and empty."""
    count, dimensions = vectors.shape
    if count <= EXACT:
        flat = faiss.IndexFlatL2(dimensions)
        flat.add(fitted.place(vectors)[0])
        return flat
    lists = 2 * int(np.sqrt(count))
    # Half precision: the vectors are there a second time as long as this lasts.
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatL2(dimensions), dimensions, lists, faiss.ScalarQuantizer.QT_fp16
    )
    index.cp.niter, index.cp.max_points_per_centroid, index.nprobe = 6, 64, PROBED
    sample = np.unique(np.linspace(0, count - 1, min(64 * lists, count)).astype(np.int64))
    placed = np.empty((len(sample), dimensions), np.float32)
    for start in range(0, len(sample), BLOCK):
        placed[start : start + BLOCK] = fitted.place(vectors[sample[start : start + BLOCK]])[0]
    index.train(placed)
    return index
