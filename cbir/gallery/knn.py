"""Nearest neighbours of images of a gallery, their distances, and directions learned from them.

What an image and its nearest neighbours differ in says little about its kind. Such directions are damped, and
principal directions of what is left are weighted by their variance: the learned whitening of Radenovic, Tolias & Chum
2016 (CNN image retrieval learns from BoW; after Mikolajczyk & Matas 2007), with neighbours as its matching pairs.
"""

from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.flat_index import add_in_pieces, create_gpu_index, one_search_thread
from cbir.gallery.knn_lists import nearest_in_lists, sort_into_lists
from cbir.gallery.vector_blocks import Floats, Space
from cbir.system.device import Device, choose_device, faiss_gpu_problem
from cbir.system.device_failure import device_failures, on_gpu_or_cpu
from cbir.system.threads import checkpoint

NEAREST = 8  # neighbours of each image
EXACT = 10_000  # images up to which all are compared with all
BLOCK = 2048  # rows searched for at a time
PAIRED = 20  # neighbours of an image; a pair of images counts if each is among the other's
POWER = 0.5  # of the scatter of pairs to divide by: it is whitened
FLOOR = (
    0.3  # added to its eigenvalues, in units of their mean, so that those near 0 do not outweigh all others
)
EMPHASIS = 0.2  # power of its variance that weighs a direction
LEAST = 1e-12  # a smaller scatter is none
Doubles = NDArray[np.float64]


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


def find_neighbours(vectors: Floats, space: Space, device: Device = "cpu") -> NearestNeighbours:
    """Find the neighbours of normalised vectors (n, d) within a whitened space; in a large gallery nearly all.

    Deterministic. In a large gallery about three in a hundred are not the nearest but nearly so, but on a GPU, where
    all are compared. One that fails is done by the CPU, unless `device` is "cuda".
    """
    if len(vectors) > EXACT and choose_device(device).name == "cuda" and faiss_gpu_problem() is None:
        return on_gpu_or_cpu(device, lambda: _on_gpu(vectors, space), lambda: _on_cpu(vectors, space))
    return _on_cpu(vectors, space)


def _on_gpu(vectors: Floats, space: Space) -> NearestNeighbours:
    units, lengths = space.transform(vectors)
    rows, squared = no_neighbours(len(units), NEAREST)
    with device_failures("neighbours"):
        index = create_gpu_index(units.shape[1], half=False)
        add_in_pieces(index, units)
        _search_blocks(index, units, rows, squared)
    return NearestNeighbours(space, rows, squared, lengths)


def _on_cpu(vectors: Floats, space: Space) -> NearestNeighbours:
    if len(vectors) > EXACT:
        lists = sort_into_lists(vectors, space)
        return NearestNeighbours(space, *nearest_in_lists(lists, NEAREST), lists.lengths)
    units, lengths = space.transform(vectors)
    return NearestNeighbours(space, *compare_all(units, NEAREST), lengths)


def compare_all(units: Floats, nearest: int) -> tuple[NDArray[np.int32], Floats]:
    """Find the `nearest` neighbours of positions (n, d), all compared with all.

    Returns rows (n, nearest) int32 and squared distances (n, nearest) float32, as in `NearestNeighbours`.
    """
    rows, squared = no_neighbours(len(units), nearest)
    if len(units) > 1:
        index = faiss.IndexFlatL2(units.shape[1])
        index.add(units)
        # One thread: a process forked after faiss has used several would wait for them forever.
        with one_search_thread():
            _search_blocks(index, units, rows, squared)
    return rows, squared


def no_neighbours(count: int, nearest: int) -> tuple[NDArray[np.int32], Floats]:
    """Return rows and squared distances (count, nearest) of images without neighbours, to be filled."""
    return np.full((count, nearest), -1, np.int32), np.full((count, nearest), np.inf, np.float32)


def _search_blocks(index: Any, units: Floats, rows: NDArray[np.int32], squared: Floats) -> None:
    """Fill rows and squared distances for two positions (n, d) or more, which an index has."""
    count = len(units)
    k = min(rows.shape[1], count - 1)
    for start in range(0, count, BLOCK):
        checkpoint()
        block = slice(start, min(start + BLOCK, count))
        distances, candidates = index.search(units[block], k + 1)
        query_rows = np.arange(block.start, block.stop)[:, None]
        # An image is its own nearest, unless copies of it come first.
        order = np.argsort(candidates == query_rows, axis=1, kind="stable")[:, :k]
        rows[block, :k] = np.take_along_axis(candidates, order, axis=1)
        squared[block, :k] = np.take_along_axis(distances, order, axis=1)
    squared[rows < 0] = np.inf
    np.maximum(squared, 0.0, out=squared)


def learn_directions(values: NDArray[np.float32], variances: Doubles, count: int) -> Doubles:
    """Learn directions in which neighbours agree.

    Parameters
    ----------
    values : (n, w) float32
        Principal components of a sample of the collection, those with the greatest variance first.
    variances : (w,) float64
        Variances of the components over the collection, descending.
    count : int
        Number of directions to learn, at most w.

    Returns
    -------
    (w, count) float64
        Directions in the space of `values`, those that matter most first; neither orthogonal nor of length 1.
    """
    first = values[:, :count]
    lengths = np.sqrt(np.einsum("ij,ij->i", first, first))
    neighbours, _ = compare_all(first / np.maximum(lengths, np.float32(LEAST))[:, None], PAIRED)
    scatter = pair_scatter(values, neighbours)
    spread, axes = np.linalg.eigh(scatter / max(float(np.trace(scatter)) / len(scatter), LEAST))
    damping = (axes * (np.maximum(spread, 0.0) + FLOOR) ** -POWER) @ axes.T
    remaining, directions = np.linalg.eigh(damping * variances @ damping)
    remaining, directions = np.maximum(remaining[::-1][:count], 0.0), directions[:, ::-1][:, :count]
    weights = (remaining / max(float(remaining[0]), LEAST)) ** EMPHASIS
    return np.asarray(damping @ directions * weights)


def pair_scatter(values: NDArray[np.float32], neighbours: NDArray[np.int32]) -> Doubles:
    """Return the mean over images of the mean scatter of their differences from mutual neighbours.

    Parameters
    ----------
    values : (n, w) float32
        Values of n images.
    neighbours : (n, k) int32
        Their nearest images, -1 where there are fewer.

    Returns
    -------
    (w, w) float64
        Mean of (x - y)(x - y)^T; 0 without pairs.
    """
    from scipy import sparse  # only now: a service starts without it

    images, places = np.nonzero(neighbours >= 0)
    shape = (len(values), len(values))
    joined = sparse.csr_matrix((np.ones(len(images)), (images, neighbours[images, places])), shape=shape)
    mutual = joined.multiply(joined.T).tocsr()
    counts = np.asarray(mutual.sum(axis=1)).ravel()
    with_pairs = int(np.count_nonzero(counts))
    weights = sparse.diags(1.0 / np.maximum(counts, 1.0) / max(with_pairs, 1)) @ mutual
    weights = weights + weights.T
    # The sum of w (x - y)(x - y)^T over pairs is X^T (D - W) X, where D has the sums of the rows of W.
    laplacian = sparse.diags(np.asarray(weights.sum(axis=1)).ravel()) - weights
    return np.asarray(values.T.astype(np.float64) @ (laplacian @ values))
