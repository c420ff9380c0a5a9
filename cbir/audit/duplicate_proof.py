"""Proof that two pictures are the same: their windows agree once the second is turned and aligned."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import cv2
import numpy as np

from cbir.audit.alignment import IDENTITY, Alignment, align, align_from, compare, scaled
from cbir.audit.duplicate_pictures import SIDE, Picture, Pictures, to_square
from cbir.audit.picture_signatures import ORIENTATIONS
from cbir.gallery.vector_blocks import Floats

STILL = 0.993  # least median correlation of the windows of duplicates that have not moved
MOVED = 0.945  # least lower quartile, of duplicates that are rotated or cropped: others are seldom aligned by that
PROMISING = 0.9  # least median of the small pictures for which more is done

# Pictures of 64 x 64 pixels and less show too little to tell a neighbouring slice from a copy by that.
STILL_SMALL = 0.9958
STILL_SMOOTHED = (
    0.9993  # least median once both are smoothed and have the same histogram: recompressed, or with a gamma
)
SMOOTHED = 2.0  # pixels of standard deviation
MOVED_SMALL = 1.95  # least -log10(1 - quarter) - 1.5 log10(1 - weakest)


class Proof(NamedTuple):
    """Proof of a pair: how the second picture is turned (index into ORIENTATIONS) and aligned; its confidence."""

    orientation: int
    alignment: Alignment
    confidence: float

    def reversed(self, side: int) -> "Proof":
        """Return the proof from the second picture to the first, in squares of this side."""
        turned = ORIENTATIONS[self.orientation]
        flip = np.diag([-1.0 if turned.flipped else 1, -1 if turned.upside_down else 1, 1])
        flip[:2, 2] = (side - 1) * np.array([turned.flipped, turned.upside_down])
        inverse = np.linalg.inv(np.vstack([self.alignment.transform, [0, 0, 1]]))
        transform = np.asarray((flip @ inverse @ flip)[:2], np.float32)
        return self._replace(alignment=replace(self.alignment, transform=transform))


def prove(
    pictures: Pictures,
    first: int,
    second: int,
    orientation: int,
    start: Floats = IDENTITY,
    movable: bool = True,
) -> Proof | None:
    """Compare two rows of pictures, the second turned; return None if they are no duplicates.

    Parameters
    ----------
    pictures : Pictures
    first, second : int
        Rows.
    orientation : int
        Index into ORIENTATIONS of how the second is turned.
    start : (2, 3) float32
        Where the pixels of the first square of 64 x 64 may be in the second.
    movable : bool
        Whether the second may also be rotated or cropped, which takes several times as long to find out.
    """
    turn = ORIENTATIONS[orientation].apply
    size, side = pictures.common_size(first, second), pictures.fine_side(first, second)
    small = _narrowed(pictures.squares[first], size), turn(_narrowed(pictures.squares[second], size))
    alignment = still = compare(*small, IDENTITY)
    if side > SIDE and still.median >= PROMISING:
        alignment = compare(*_fine(pictures, first, second, turn), IDENTITY)
    confidence = _confidence(alignment, side)
    if side == SIDE and not confidence and still.median >= PROMISING:
        confidence = _above(_smoothed_agreement(*small), STILL_SMOOTHED)
    if movable and not confidence:
        alignment = align(*small, still, start)
        if alignment is still or alignment.median < PROMISING:
            return None
        if side > SIDE:
            start = scaled(alignment.transform, side / SIDE)
            alignment = align_from(*_fine(pictures, first, second, turn), start)
        confidence = _confidence(alignment, side)
    return Proof(orientation, alignment, round(confidence, 3)) if confidence else None


def _fine(
    pictures: Pictures, first: int, second: int, turn: Callable[[Picture], Picture]
) -> tuple[Picture, Picture]:
    side = pictures.fine_side(first, second)
    return pictures.fine(first, side), turn(pictures.fine(second, side))


def _narrowed(square: Picture, size: int) -> Picture:
    """Return a square with the detail only that a picture of this size has."""
    return to_square(to_square(square, size), SIDE) if size < SIDE else square


def _confidence(alignment: Alignment, side: int) -> float:
    """Return how sure it is that two squares with this side are duplicates, from .5 to 1; 0 if they are not."""
    if not alignment.moved:
        return _above(alignment.median, STILL if side > SIDE else STILL_SMALL)
    if side > SIDE:
        return _above(alignment.quarter, MOVED)
    evidence = -math.log10(max(1 - alignment.quarter, 1e-4)) - 1.5 * math.log10(
        max(1 - alignment.weakest, 1e-4)
    )
    return min(1.0, 0.5 * evidence / MOVED_SMALL) if evidence >= MOVED_SMALL else 0.0


def _above(value: float, limit: float) -> float:
    return 0.5 + 0.5 * (value - limit) / (1 - limit) if value >= limit else 0.0


def _smoothed_agreement(first: Picture, second: Picture) -> float:
    """Return the median correlation of windows of squares with the same histogram, smoothed."""
    counts = [np.bincount(picture.ravel(), minlength=256) for picture in (first, second)]
    ranks = [np.cumsum(count) - count / 2 for count in counts]
    levels = np.flatnonzero(counts[0])
    curve = np.rint(np.interp(ranks[1], ranks[0][levels], levels)).astype(np.uint8)
    return compare(first, np.asarray(cv2.LUT(second, curve), np.uint8), IDENTITY, SMOOTHED).median
