"""Orientation and placing of the second picture of a pair upon the first, by their signatures."""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.audit.duplicate_pictures import SIDE as SQUARE
from cbir.audit.picture_signatures import (
    CIRCLE,
    ENLARGED,
    ORIENTATIONS,
    PLACINGS,
    SIDE,
    Signatures,
    orientation_signs,
    placing,
)
from cbir.cancellation import checkpoint
from cbir.gallery.vector_blocks import Floats

TRIED = 2  # orientations: a symmetric picture may look more like its mirror image
NEARLY = 0.08  # likeness that the second orientation may lack
UNMOVED = 0.03  # likeness by which another placing must be better than none
SHIFT = 3  # pixels of 32
LEAST_DETAIL = 0.8  # correlation of the detail of pairs that are alike as they are
LEAST_DETAIL_MOVED = 0.57  # of those that may be moved
BLOCK = 4096  # pairs

Rows = NDArray[np.int64]


class PlacedPairs(NamedTuple):
    """Pairs, and how the second of each may lie upon the first.

    pairs: (p, 2) rows; one may be there twice. orientation: (p,) index into ORIENTATIONS. start: (p, 2, 3) float32,
    where pixels of the first square of 64 x 64 may be in the second, once turned. movable: (p,) bool, pairs that may
    be moved from there; the others are alike where they are.
    """

    pairs: Rows
    orientation: Rows
    start: Floats
    movable: NDArray[np.bool_]


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
    nothing = np.empty(0, np.int64)
    parts = [PlacedPairs(pairs[:0], nothing, np.empty((0, 2, 3), np.float32), np.empty(0, bool))]
    for begin in range(0, len(pairs), BLOCK):
        checkpoint()
        parts.append(
            _shift(_turn(pairs[begin : begin + BLOCK], signatures.frequencies, least), signatures.detail)
        )
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
    kept = movable | (np.take_along_axis(still, turned, axis=1) >= least[0])
    row, order = np.nonzero(kept & (best >= best[:, :1] - NEARLY))
    orientation, movable = turned[row, order], movable[row, order]
    start = np.stack(starts)[np.where(movable, best_placing[row, orientation], 0)]
    return PlacedPairs(pairs[row], orientation, start, movable)


def _shift(placed: PlacedPairs, detail: NDArray[np.int8]) -> PlacedPairs:
    """Move each pair to the shift at which its detail correlates most; drop pairs where it does so little."""
    if not len(placed.pairs):
        return placed
    first = np.empty((len(placed.pairs), SIDE, SIDE), np.float32)
    second = np.empty_like(first)
    for row, (one, other) in enumerate(placed.pairs.tolist()):
        second[row] = ORIENTATIONS[placed.orientation[row]].apply_signed(detail[other])
        first[row] = _placed(detail[one], placed.start[row])
    first *= CIRCLE
    second *= CIRCLE
    spectrum = np.conj(np.fft.rfft2(first)) * np.fft.rfft2(second)
    products = np.fft.irfft2(spectrum, s=(SIDE, SIDE))
    reach = np.arange(-SHIFT, SHIFT + 1)
    products = products[:, reach[:, None], reach].reshape(len(first), -1)
    lengths = np.sqrt(np.einsum("pij,pij->p", first, first) * np.einsum("pij,pij->p", second, second))
    best = products.argmax(axis=1)
    correlation = np.take_along_axis(products, best[:, None], axis=1)[:, 0] / np.maximum(lengths, 1e-6)
    kept = correlation >= np.where(placed.movable, LEAST_DETAIL_MOVED, LEAST_DETAIL)
    down, across = np.divmod(best, len(reach))
    start = placed.start.copy()
    start[placed.movable, :, 2] += (
        np.column_stack([reach[across], reach[down]])[placed.movable] * SQUARE / SIDE
    )
    return PlacedPairs(placed.pairs[kept], placed.orientation[kept], start[kept], placed.movable[kept])


def _placed(detail: NDArray[np.int8], start: Floats) -> Floats:
    """Return detail (32, 32) where a map of squares about their middle puts it."""
    values = detail.astype(np.float32)
    if start[0, 0] == 1 and start[0, 1] == 0:
        return values
    transform = start.copy()
    middle = np.full(2, (SIDE - 1) / 2, np.float32)
    transform[:, 2] = middle - start[:, :2] @ middle
    return np.asarray(cv2.warpAffine(values, transform, (SIDE, SIDE)), np.float32)
