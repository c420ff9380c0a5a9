"""k nearest neighbours of every image of a gallery."""

from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.flat_index import one_search_thread
from cbir.gallery.gpu_flat_index import add_in_pieces, create_gpu_index
from cbir.gallery.knn_lists import nearest_in_lists, sort_into_lists
from cbir.gallery.vector_blocks import Floats
from cbir.gallery.whitening import Space
from cbir.system.cancellation import checkpoint
from cbir.system.device import Device, choose_device, faiss_gpu_problem
from cbir.system.device_failure import device_failures, on_gpu_or_cpu

NEAREST = 8  # neighbours of each image
EXACT = 10_000  # images up to which all are compared with all
BLOCK = 2048  # rows searched for at a time


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
