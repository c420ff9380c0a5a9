"""k nearest neighbours of every image of a gallery."""

from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.cancellation import checkpoint
from cbir.gallery.vector_blocks import Floats, spread_rows
from cbir.gallery.whitening import Space

NEAREST = 8  # neighbours of each image
EXACT = 10_000  # images up to which all are compared with all
PROBES = 16  # lists of the inverted file that a search reads
BLOCK = 2048  # rows transformed at a time: memory should hold little besides the index


@dataclass(frozen=True, eq=False)
class NearestNeighbours:
    """n images, each with its k nearest others, nearest first.

    rows: (n, k) int32; -1 if there are fewer. squared: (n, k) float32, squared distances within the space, from 0 to
    4, infinite if there are fewer. lengths: (n,) float32, see `Space.transform`.
    """

    space: Space
    rows: NDArray[np.int32]
    squared: Floats
    lengths: Floats


def find_neighbours(vectors: Floats, space: Space) -> NearestNeighbours:
    """Find the neighbours of normalised vectors (n, d) within a whitened space; by an inverted file if n is large.

    Deterministic. In a large collection about two in a hundred are not the nearest but nearly so.
    """
    count = len(vectors)
    lengths = np.empty(count, np.float32)
    rows = np.full((count, NEAREST), -1, np.int32)
    squared = np.full((count, NEAREST), np.inf, np.float32)
    if count < 2:
        lengths[:] = space.transform(vectors)[1]
        return NearestNeighbours(space, rows, squared, lengths)
    # One thread if that is enough: a process forked after faiss has used several would wait for them forever.
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1 if count <= EXACT else threads)
    try:
        _fill(vectors, space, lengths, rows, squared)
    finally:
        faiss.omp_set_num_threads(threads)
    return NearestNeighbours(space, rows, squared, lengths)


def _fill(vectors: Floats, space: Space, lengths: Floats, rows: NDArray[np.int32], squared: Floats) -> None:
    """Fill the arrays of `NearestNeighbours` for two vectors or more."""
    count = len(vectors)
    index = _index(vectors, space)
    for start in range(0, count, BLOCK):
        checkpoint()
        block = slice(start, min(start + BLOCK, count))
        units, lengths[block] = space.transform(vectors[block])
        if count > EXACT:
            index.add(units)
    k = min(NEAREST, count - 1)
    for start in range(0, count, BLOCK):
        checkpoint()
        block = slice(start, min(start + BLOCK, count))
        distances, candidates = index.search(space.transform(vectors[block])[0], k + 1)
        query_rows = np.arange(block.start, block.stop)[:, None]
        # An image is its own nearest, unless copies of it come first.
        order = np.argsort(candidates == query_rows, axis=1, kind="stable")[:, :k]
        rows[block, :k] = np.take_along_axis(candidates, order, axis=1)
        squared[block, :k] = np.take_along_axis(distances, order, axis=1)
    squared[rows < 0] = np.inf
    np.maximum(squared, 0.0, out=squared)


def _index(vectors: Floats, space: Space) -> faiss.Index:
    """Return a flat index with all vectors, or an inverted file that is trained and empty."""
    count, dimensions = vectors.shape
    flat = faiss.IndexFlatL2(dimensions)
    if count <= EXACT:
        flat.add(space.transform(vectors)[0])
        return flat
    lists = 2 * int(np.sqrt(count))
    # Half precision: the index holds a second copy of the vectors.
    index = faiss.IndexIVFScalarQuantizer(flat, dimensions, lists, faiss.ScalarQuantizer.QT_fp16)
    index.cp.niter, index.cp.max_points_per_centroid, index.nprobe = 6, 64, PROBES
    sample = spread_rows(count, 64 * lists)
    units = np.empty((len(sample), dimensions), np.float32)
    for start in range(0, len(sample), BLOCK):
        units[start : start + BLOCK] = space.transform(vectors[sample[start : start + BLOCK]])[0]
    index.train(units)
    return index
