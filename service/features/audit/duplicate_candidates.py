"""Pairs of images that may be duplicates, and how the second picture may lie upon the first."""

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any, NamedTuple

import cv2
import faiss
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.knn import EXACT, find_neighbours
from cbir.gallery.vector_blocks import Floats, Space, is_among, spread_rows
from cbir.system.threads import checkpoint, cores
from service.features.audit.alignment import IDENTITY
from service.features.audit.duplicate_pictures import SIDE as SQUARE
from service.features.audit.picture_signatures import (
    CIRCLE,
    ENLARGED,
    ORIENTATIONS,
    PLACINGS,
    SIDE,
    Signatures,
    orientation_signs,
    placing,
)

TRIED = 2  # orientations: a symmetric picture may look more like its mirror image
NEARLY = 0.08  # likeness that the second orientation may lack
UNMOVED = 0.03  # likeness by which another placing must be better than none
SHIFT = 3  # pixels of 32
LEAST_DETAIL = 0.8  # correlation of the detail of pairs that are alike as they are
LEAST_DETAIL_MOVED = 0.57  # of those that may be moved, where their detail agrees most
LEAST_DETAIL_UNMOVED = 0.65  # of those, where they are: with less, they are not compared there
PLACED_TOGETHER = 1024  # pairs that a thread places at a time
AT_ONCE = 32 * PLACED_TOGETHER  # pairs between two checkpoints
Rows = NDArray[np.int64]
NEAREST_BY_VECTOR = 5  # of the eight that are found
NEAREST_BY_PICTURE = 8, 2  # as they are, and in each other placing
LEAST_BY_VECTOR = 0.55  # likeness of the low frequencies in the best orientation and placing
LEAST_AS_THEY_ARE = 0.9
LEAST_PLACED = 0.965  # of those found by their pictures alone that are rotated or enlarged
LISTS, PROBES, TRAINED_ON = 2, 16, 40  # lists per root of the images, lists compared with, images per list
SEARCHED_TOGETHER = 2048  # rows that a thread searches for at a time


class PlacedPairs(NamedTuple):
    """Pairs, and how the second of each may lie upon the first.

    pairs: (p, 2) rows; one may be there twice. orientation: (p,) index into ORIENTATIONS. start: (p, 2, 3) float32,
    where pixels of the first square of 64 x 64 may be in the second, once turned. movable: (p,) bool, pairs that may
    be moved from there. unmoved: (p,) bool, pairs that may be alike where they are.
    """

    pairs: Rows
    orientation: Rows
    start: Floats
    movable: NDArray[np.bool_]
    unmoved: NDArray[np.bool_]


class PlacedPair(NamedTuple):
    """One of PlacedPairs."""

    first: int
    second: int
    orientation: int
    start: Floats = IDENTITY
    movable: bool = True
    unmoved: bool = True


def list_pairs(placed: PlacedPairs) -> list[PlacedPair]:
    """Return the pairs one by one."""
    first, second = placed.pairs.T.tolist()
    turned, movable, unmoved = placed.orientation.tolist(), placed.movable.tolist(), placed.unmoved.tolist()
    columns = first, second, turned, placed.start, movable, unmoved
    return [PlacedPair(*values) for values in zip(*columns, strict=True)]


def join_pairs(parts: list[PlacedPairs]) -> PlacedPairs:
    """Return the pairs of all parts."""
    return PlacedPairs(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def orient_pairs(pairs: Rows, signatures: Signatures, least: tuple[float, float]) -> PlacedPairs:
    """Turn and place the second picture of pairs (p, 2): as it is most alike, and nearly so; drop unlike pairs.

    Parameters
    ----------
    pairs : (p, 2) int64
        Rows.
    signatures : Signatures
    least : (float, float)
        Likeness of the low frequencies that a pair must have as it is, and to be moved.

    Returns
    -------
    PlacedPairs
        A pair is there once for each orientation that is likely, TRIED times at most.
    """
    nothing, never = np.empty(0, np.int64), np.empty(0, bool)
    parts = [PlacedPairs(pairs[:0], nothing, np.empty((0, 2, 3), np.float32), never, never)]

    def place(begin: int) -> PlacedPairs:
        turned = _turn(pairs[begin : begin + PLACED_TOGETHER], signatures.frequencies, least)
        return _shift(turned, signatures.detail)

    with ThreadPoolExecutor(cores()) as executor:
        for begin in range(0, len(pairs), AT_ONCE):
            checkpoint()
            parts += executor.map(place, range(begin, min(begin + AT_ONCE, len(pairs)), PLACED_TOGETHER))
    return join_pairs(parts)


def _turn(pairs: Rows, frequencies: Floats, least: tuple[float, float]) -> PlacedPairs:
    """Choose orientation and placing by the low frequencies."""
    starts = [placing(number, SQUARE) for number in range(len(PLACINGS))]
    starts.append(np.asarray(cv2.invertAffineTransform(starts[ENLARGED]), np.float32))
    first, second = frequencies[pairs[:, 0]], frequencies[pairs[:, 1]]
    enlarged = first[:, :1] * second[:, ENLARGED:]
    alike = np.concatenate([first * second[:, :1], enlarged], axis=1) @ orientation_signs().T
    still = alike[:, 0].copy()
    alike[:, 0] += UNMOVED
    best_placing = alike.argmax(axis=1)
    likeness = np.take_along_axis(alike, best_placing[:, None], axis=1)[:, 0]
    likeness -= UNMOVED * (best_placing == 0)
    turned = np.argsort(-likeness, axis=1)[:, :TRIED]
    best = np.take_along_axis(likeness, turned, axis=1)
    movable = best >= least[1]
    probable = movable | (np.take_along_axis(still, turned, axis=1) >= least[0])
    row, order = np.nonzero(probable & (best >= best[:, :1] - NEARLY))
    orientation, movable = turned[row, order], movable[row, order]
    start = np.stack(starts)[np.where(movable, best_placing[row, orientation], 0)]
    return PlacedPairs(pairs[row], orientation, start, movable, ~movable)


def _shift(placed: PlacedPairs, detail: NDArray[np.int8]) -> PlacedPairs:
    """Move each pair to the shift at which its detail correlates most; drop pairs where it does so little."""
    if not len(placed.pairs):
        return placed
    first = detail[placed.pairs[:, 0]].astype(np.float32)
    second = _turned(detail[placed.pairs[:, 1]], placed.orientation) * CIRCLE
    lengths = _length(second)
    unshifted = np.einsum("pij,pij->p", first * CIRCLE, second) / np.maximum(
        _length(first * CIRCLE) * lengths, 1e-6
    )
    for row in np.flatnonzero((placed.start[:, 0, 0] != 1) | (placed.start[:, 0, 1] != 0)):
        first[row] = _placed(first[row], placed.start[row])
    first *= CIRCLE
    products, shifts = _products(first, second)
    best = products.argmax(axis=1)
    most = np.take_along_axis(products, best[:, None], axis=1)[:, 0] / np.maximum(
        _length(first) * lengths, 1e-6
    )
    movable = placed.movable
    agreeing = most >= np.where(movable, LEAST_DETAIL_MOVED, LEAST_DETAIL)
    start = placed.start.copy()
    start[movable, :, 2] += shifts[best][movable] * SQUARE / SIDE
    unmoved = ~movable | (unshifted >= LEAST_DETAIL_UNMOVED)
    return PlacedPairs(
        *(values[agreeing] for values in (placed.pairs, placed.orientation, start, movable, unmoved))
    )


def _turned(detail: NDArray[np.int8], orientation: Rows) -> Floats:
    """Return the detail (p, 32, 32) of pictures in their orientations."""
    turned = np.empty(detail.shape, np.float32)
    for number, turn in enumerate(ORIENTATIONS):
        rows = orientation == number
        turned[rows] = turn.apply_signed(detail[rows])
    return turned


def _length(values: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("pij,pij->p", values, values)), np.float32)


def _products(first: Floats, second: Floats) -> tuple[Floats, Rows]:
    """Return the products (p, shifts) of pictures (p, 32, 32), the second shifted, and the shifts (across, down)."""
    from scipy import fft  # only now: the server starts without it

    spectrum = np.conj(fft.rfft2(first)) * fft.rfft2(second)
    reach = np.arange(-SHIFT, SHIFT + 1)
    products = fft.irfft2(spectrum, s=(SIDE, SIDE))[:, reach[:, None], reach].reshape(len(first), -1)
    return products, np.stack(np.meshgrid(reach, reach), axis=-1).reshape(-1, 2)


def _placed(detail: Floats, start: Floats) -> Floats:
    """Return detail (32, 32) where a map of squares about their middle puts it."""
    transform = start.copy()
    middle = np.full(2, (SIDE - 1) / 2, np.float32)
    transform[:, 2] = middle - start[:, :2] @ middle
    return np.asarray(cv2.warpAffine(detail, transform, (SIDE, SIDE)), np.float32)


def find_candidate_pairs(vectors: Floats, space: Space, signatures: Signatures) -> PlacedPairs:
    """Find pairs of n images that may be duplicates, the smaller row first, placed in one or two likely ways.

    Parameters
    ----------
    vectors : (n, d) float32
        Normalised vectors.
    space : Space
        Space that they are compared in.
    signatures : Signatures
        Of their pictures.
    """
    count = len(vectors)
    near = find_neighbours(vectors, space).rows[:, :NEAREST_BY_VECTOR]
    by_vector = _pairs(np.repeat(np.arange(count), near.shape[1]), near.ravel(), count)
    by_picture = _pairs_by_picture(signatures.frequencies)
    by_picture = by_picture[~is_among(by_picture, by_vector)]
    vector_pairs, picture_pairs = (
        np.column_stack(np.divmod(pairs, count)) for pairs in (by_vector, by_picture)
    )
    return join_pairs(
        [
            orient_pairs(vector_pairs, signatures, (LEAST_BY_VECTOR, LEAST_BY_VECTOR)),
            orient_pairs(picture_pairs, signatures, (LEAST_AS_THEY_ARE, LEAST_PLACED)),
        ]
    )


def _pairs_by_picture(frequencies: Floats) -> Rows:
    """Return the pairs that have similar frequencies apart from their signs, as first * n + second."""
    count = len(frequencies)
    index = _index(np.abs(frequencies[:, 0]))

    def search(number: int, begin: int) -> Rows:
        nearest, least = NEAREST_BY_PICTURE[number > 0], LEAST_PLACED if number else LEAST_AS_THEY_ARE
        likeness, rows = index.search(
            np.abs(frequencies[begin : begin + SEARCHED_TOGETHER, number]), min(nearest + 1, count)
        )
        query, column = np.nonzero((likeness >= least) & (rows >= 0))
        return _pairs(query + begin, rows[query, column], count)

    keys = [np.empty(0, np.int64)]
    # With threads of its own, a process forked after faiss has used them would wait for them forever.
    with ThreadPoolExecutor(cores(), initializer=faiss.omp_set_num_threads, initargs=(1,)) as executor:
        for begin in range(0, count, SEARCHED_TOGETHER):
            checkpoint()
            keys += executor.map(search, range(len(PLACINGS)), repeat(begin))
    return _distinct(np.concatenate(keys))


def _index(values: Floats) -> Any:
    """Return a faiss index of values (n, 80) by their product."""
    count, dimensions = values.shape
    flat = faiss.IndexFlatIP(dimensions)
    if count <= EXACT:
        flat.add(values)
        return flat
    lists = LISTS * int(np.sqrt(count))
    index = faiss.IndexIVFFlat(flat, dimensions, lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1  # no warning on stderr
    index.train(values[spread_rows(count, TRAINED_ON * lists)])
    index.add(values)
    index.nprobe = PROBES
    return index


def _pairs(first: Rows, second: NDArray[np.integer[Any]], count: int) -> Rows:
    """Return each pair of different rows once, as smaller * count + larger; -1 is no row."""
    second = second.astype(np.int64)
    real = (second >= 0) & (first != second)
    low, high = np.minimum(first, second)[real], np.maximum(first, second)[real]
    return _distinct(low * count + high)


def _distinct(keys: Rows) -> Rows:
    """Return the keys sorted, each once; np.unique takes longer."""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=-1) > 0]
