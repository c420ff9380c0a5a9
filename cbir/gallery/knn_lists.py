"""k nearest neighbours in a large gallery: lists of an inverted file are compared by matrix products."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats, Rows, Space, spread_rows
from cbir.system.threads import checkpoint, cores, for_each

LISTS = 2  # number of lists, in square roots of the number of images
TRAINED_ON, ITERATIONS = 64, 6  # images per list, and steps of k-means
PROBES = 32  # lists that the images of a list are compared with
MOST = 2 * PROBES  # times the mean length of a list: images that an image is compared with at most
BLOCK = 2048  # rows transformed at a time
COMPARED = 256  # rows multiplied at a time: their products stay in the cache of a core
GROUPS = 16  # columns of which only the largest product is looked at first

TOGETHER = 65_536  # images whose pairs are looked at together

Numbers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class UnitLists:
    """Positions within a space, sorted by the lists of an inverted file.

    units: (n, d) float16, of length 1. order: (n,) int64, gallery row of each. starts: (lists + 1,) int64. near:
    (lists, p) int64, the nearest lists of each, itself among the first. lengths: (n,) float32 by gallery row, see
    `Space.transform`.
    """

    units: NDArray[np.float16]
    order: Rows
    starts: Rows
    near: Rows
    lengths: Floats


def sort_into_lists(vectors: Floats, space: Space) -> UnitLists:
    """Sort the normalised vectors (n, d) into 2 sqrt(n) lists; deterministic."""
    count, dimensions = len(vectors), len(space.centre)
    lists = LISTS * int(np.sqrt(count))
    sample = spread_rows(count, TRAINED_ON * lists)
    trained = np.empty((len(sample), dimensions), np.float32)
    for start in range(0, len(sample), BLOCK):
        trained[start : start + BLOCK] = space.transform(vectors[sample[start : start + BLOCK]])[0]
    quantiser = faiss.IndexFlatL2(dimensions)
    clustering = faiss.Clustering(dimensions, lists)
    clustering.niter, clustering.max_points_per_centroid = ITERATIONS, TRAINED_ON
    clustering.train(trained, quantiser)
    list_of, lengths = np.empty(count, np.int64), np.empty(count, np.float32)
    for start in range(0, count, BLOCK):
        checkpoint()
        block = slice(start, start + BLOCK)
        units, lengths[block] = space.transform(vectors[block])
        list_of[block] = quantiser.search(units, 1)[1][:, 0]
    order = np.argsort(list_of, kind="stable")
    positions = np.empty(count, np.int64)
    positions[order] = np.arange(count)
    halves = np.empty((count, dimensions), np.float16)
    for start in range(0, count, BLOCK):  # transformed again: sorting would need a second copy
        checkpoint()
        block = slice(start, start + BLOCK)
        halves[positions[block]] = space.transform(vectors[block])[0]
    starts = np.searchsorted(list_of[order], np.arange(lists + 1))
    near = quantiser.search(quantiser.reconstruct_n(0, lists), min(PROBES, lists))[1]
    return UnitLists(halves, order, starts, near, lengths)


def nearest_in_lists(lists: UnitLists, k: int) -> tuple[NDArray[np.int32], Floats]:
    """Compare the images of each list with those of the nearest lists, and join what only one of a pair found.

    Parameters
    ----------
    lists : UnitLists
        n images.
    k : int
        Number of neighbours.

    Returns
    -------
    rows : (n, k) int32
        Gallery rows of the neighbours by gallery row, nearest first; -1 if there are fewer.
    squared : (n, k) float32
        Their squared distances, infinite if there are fewer.
    """
    count = len(lists.order)
    rows = np.full((count, k), -1, np.int32)
    squared = np.full((count, k), np.inf, np.float32)

    def compare(images: slice, list_number: int) -> None:
        candidates = _Candidates()
        for first in range(images.start, images.stop, COMPARED):
            block = slice(first, min(first + COMPARED, images.stop))
            candidates = candidates.of(lists, block, list_number)
            units = lists.units[block].astype(np.float32)
            products = units @ candidates.units.T
            itself = np.arange(block.start, block.stop) - candidates.pieces[0].start
            products[np.arange(len(units)), itself] = -np.inf
            nearest = _largest(products, k)
            # Rounding to half precision changed lengths: a copy is at distance 0 all the same.
            best = np.take_along_axis(products, nearest, axis=1)
            distances = np.einsum("ij,ij->i", units, units)[:, None] + candidates.norms[nearest] - 2.0 * best
            distances = np.maximum(distances, 0.0)
            by_distance = np.argsort(distances, axis=1, kind="stable")
            unit_rows, width = lists.order[block], distances.shape[1]
            ordered = np.take_along_axis(distances, by_distance, axis=1)
            neighbours = candidates.rows[np.take_along_axis(nearest, by_distance, axis=1)]
            rows[unit_rows, :width] = np.where(np.isfinite(ordered), neighbours, -1)
            squared[unit_rows, :width] = ordered

    for_each(_all_lists(lists), compare, cores())
    add_reverse_neighbours(rows, squared)
    return rows, squared


def _all_lists(lists: UnitLists) -> Iterator[tuple[slice, int]]:
    """Yield the positions of the images of each list, with its number."""
    for number, (start, stop) in enumerate(zip(lists.starts[:-1], lists.starts[1:], strict=True)):
        yield slice(int(start), int(stop)), number


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Images to compare a block with: pieces of the order, gallery rows, units (c, d) float32, squared lengths."""

    pieces: Sequence[slice] = ()
    rows: Rows = field(default_factory=lambda: np.empty(0, np.int64))
    units: Floats = field(default_factory=lambda: np.empty((0, 0), np.float32))
    norms: Floats = field(default_factory=lambda: np.empty(0, np.float32))

    def of(self, lists: UnitLists, block: slice, list_number: int) -> "_Candidates":
        """Return the candidates of a block: these, unless it has others than the block before."""
        pieces = _pieces(lists, block, list_number)
        if pieces == self.pieces:
            return self
        units = np.concatenate([lists.units[piece] for piece in pieces]).astype(np.float32)
        rows = np.concatenate([lists.order[piece] for piece in pieces])
        return _Candidates(pieces, rows, units, np.einsum("ij,ij->i", units, units))


def _pieces(lists: UnitLists, block: slice, list_number: int) -> list[slice]:
    """Return the positions of the images to compare a block with: of its list, then of the next nearest.

    At most MOST times the mean list, so that many copies of one image, which share a list, are not all compared.
    """
    most = max(int(MOST * len(lists.order) / len(lists.near)), COMPARED)
    start, stop = int(lists.starts[list_number]), int(lists.starts[list_number + 1])
    start = max(start, min(block.start - (most - COMPARED) // 2, stop - most))
    pieces = [slice(start, min(start + most, stop))]
    left = most - (pieces[0].stop - start)
    for number in lists.near[list_number]:
        first, last = int(lists.starts[number]), int(lists.starts[number + 1])
        if number != list_number and left > 0:
            pieces.append(slice(first, min(last, first + left)))
            left -= pieces[-1].stop - first
    return pieces


def _largest(products: Floats, k: int) -> Rows:
    """Return the columns (m, min(k, c)) of the k largest of each row of products (m, c), in no order.

    The k largest are in the k groups of columns with the largest maxima; few columns are left to select from.
    """
    rows, columns = products.shape
    width = columns // GROUPS
    if width <= k:
        k = min(k, columns)
        return np.argpartition(products, columns - k, axis=1)[:, columns - k :]
    grouped = products[:, : width * GROUPS].reshape(rows, GROUPS, width)
    groups = np.argpartition(grouped.max(axis=1), width - k, axis=1)[:, width - k :]
    members = (groups[:, :, None] + width * np.arange(GROUPS)).reshape(rows, -1)
    rest = np.broadcast_to(np.arange(width * GROUPS, columns), (rows, columns - width * GROUPS))
    members = np.concatenate([members, rest], axis=1)
    values = np.take_along_axis(products, members, axis=1)
    best = np.argpartition(values, values.shape[1] - k, axis=1)[:, values.shape[1] - k :]
    return np.take_along_axis(members, best, axis=1)


def add_reverse_neighbours(rows: Numbers, squared: Floats) -> None:
    """Give each image those of its nearest that have it as a neighbour and that it lacks, in place.

    The images of a list are compared with other lists than those compare theirs with, so that one of a pair may miss
    the other.

    Parameters
    ----------
    rows : (n, k) int32
        Neighbours of n images, nearest first; -1 if there are fewer.
    squared : (n, k) float32
        Their squared distances, infinite if there are fewer.
    """
    targets, sources, distances = _missing(rows, squared)
    order = np.lexsort((distances, targets))
    targets, sources, distances = targets[order], sources[order], distances[order]
    place = np.arange(len(targets)) - np.searchsorted(
        targets, targets
    )  # of a source among those of its target
    kept = place < rows.shape[1]
    targets, sources, distances, place = targets[kept], sources[kept], distances[kept], place[kept]
    changed, position = np.unique(targets, return_inverse=True)
    new_rows = np.full((len(changed), rows.shape[1]), -1, np.int32)
    new_squared = np.full((len(changed), rows.shape[1]), np.inf, np.float32)
    new_rows[position, place], new_squared[position, place] = sources, distances
    both_rows = np.concatenate([rows[changed], new_rows], axis=1)
    both_squared = np.concatenate([squared[changed], new_squared], axis=1)
    nearest = np.argsort(both_squared, axis=1, kind="stable")[:, : rows.shape[1]]
    rows[changed] = np.take_along_axis(both_rows, nearest, axis=1)
    squared[changed] = np.take_along_axis(both_squared, nearest, axis=1)


def _missing(rows: Numbers, squared: Floats) -> tuple[Numbers, Numbers, Floats]:
    """Return images, the others that have them as neighbours and are nearer than their last one, and distances."""
    found: list[tuple[Numbers, Numbers, Floats]] = []
    for start in range(0, len(rows), TOGETHER):
        checkpoint()
        block = slice(start, start + TOGETHER)
        targets, distances = rows[block].ravel(), squared[block].ravel()
        sources = np.repeat(np.arange(start, start + len(rows[block]), dtype=np.int32), rows.shape[1])
        nearer = np.flatnonzero((targets >= 0) & (distances < squared[targets, -1]))
        targets, sources, distances = targets[nearer], sources[nearer], distances[nearer]
        lacking = ~(rows[targets] == sources[:, None]).any(axis=1)
        found.append((targets[lacking], sources[lacking], distances[lacking]))
    targets, sources, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return targets, sources, distances
