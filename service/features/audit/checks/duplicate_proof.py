"""Proof that two pictures are the same: their windows agree once the second is turned and aligned."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import cv2
import numpy as np

from service.features.audit.checks.alignment import (
    IDENTITY,
    Alignment,
    align_from,
    align_roughly,
    compare,
    scaled,
    windows,
)
from service.features.audit.checks.duplicate_pictures import SIDE, Picture, Pictures, to_square
from service.features.audit.checks.pair_orientation import PlacedPair
from service.features.audit.checks.picture_signatures import ORIENTATIONS

STILL = 0.993  # least median correlation of the windows of duplicates that have not moved
MOVED = 0.945  # least lower quartile, of duplicates that are rotated or cropped: others are seldom aligned by that
PROMISING = 0.9  # least median of the small pictures for which more is done

# Pictures of 64 x 64 pixels and less show too little to tell a neighbouring slice from a copy by that.
STILL_SMALL = 0.9958
# Least median once both are smoothed and have the same histogram: recompressed, or with a gamma.
STILL_SMOOTHED = 0.9994
SMOOTHED = 2.0  # pixels of standard deviation
MOVED_SMALL = 2.05  # least -log10(1 - quarter) - 1.5 log10(1 - weakest)

Couple = tuple[Picture, Picture]


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


def prove(pictures: Pictures, pair: PlacedPair) -> Proof | None:
    """Compare two pictures as they are placed; return None if they are no duplicates."""
    first, second, orientation = pair.first, pair.second, pair.orientation
    turn = ORIENTATIONS[orientation].apply
    size, side = pictures.common_size(first, second), pictures.fine_side(first, second)
    small = (
        _narrowed(pictures.squares.pixels[first], size),
        turn(_narrowed(pictures.squares.pixels[second], size)),
    )

    def fine() -> Couple:
        if side == SIDE:
            return small
        return pictures.fine(first, side), turn(pictures.fine(second, side))

    known = windows(small[0])
    still = compare(known, small[1], IDENTITY) if pair.unmoved else None
    alignment, confidence = _stay(still, small, fine, side)
    if pair.movable and not confidence:
        rough = align_roughly(*small, pair.start, known)
        alignment = _move(still, rough, fine, side)
        confidence = _confidence(alignment, side) if alignment else 0.0
    return Proof(orientation, alignment, round(confidence, 3)) if alignment and confidence else None


def _stay(
    still: Alignment | None, small: Couple, fine: Callable[[], Couple], side: int
) -> tuple[Alignment | None, float]:
    """Return the alignment of two pictures where they are, with its confidence, which may be 0."""
    if still is None or still.median < PROMISING:
        return None, 0.0
    alignment = compare(*fine(), IDENTITY) if side > SIDE else still
    confidence = _confidence(alignment, side)
    if side == SIDE and not confidence:
        confidence = _above(_smoothed_agreement(*small), STILL_SMOOTHED)
    return alignment, confidence


def _move(
    still: Alignment | None, rough: Alignment | None, fine: Callable[[], Couple], side: int
) -> Alignment | None:
    """Align two pictures from a rough alignment; None if they are unlike, or agree as well where they are."""
    if rough is None:
        return None
    alignment = align_from(*fine(), scaled(rough.transform, side / SIDE))
    if alignment.median < PROMISING or (still and _agreement(still) >= _agreement(alignment)):
        return None
    return alignment


def _agreement(alignment: Alignment) -> float:
    return alignment.median + alignment.quarter


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
