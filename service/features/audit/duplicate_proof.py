"""Proof that two pictures are the same once the second is turned and aligned, and what was changed."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats
from cbir.store import Record
from service.features.audit.alignment import (
    IDENTITY,
    SMOOTHING,
    STILL_DEGREES,
    Alignment,
    align_from,
    align_roughly,
    compare,
    scaled,
    smooth,
    warp,
    windows,
)
from service.features.audit.duplicate_candidates import PlacedPair, PlacedPairs, list_pairs
from service.features.audit.duplicate_pictures import (
    SIDE,
    Picture,
    PictureReader,
    Pictures,
    PictureWorkers,
    Squares,
    to_square,
)
from service.features.audit.picture_signatures import ORIENTATIONS, Orientation

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
LEVELS = 32  # of the curve of grey values
CROPPED = 0.03  # of the scale, or of the side that the middle moves by
RESIZED = 0.03
CURVED = 6.0  # mean grey levels between the curve and a straight line
WRITTEN = 45.0  # grey levels of a pixel that was written over
EDGE = 7  # pixels beside what the duplicate lacks that do not count
TEXT_SHARES = 0.001, 0.15  # of the pixels
TOGETHER = 256  # pairs that a thread or process compares one after the other


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


def name_changes(
    records: tuple[Record, Record],
    pictures: tuple[Picture, Picture],
    turned: Orientation,
    alignment: Alignment,
) -> str:
    """Return the changes that lead from a reference to a duplicate, joined by "+".

    Parameters
    ----------
    records : (Record, Record)
        Of reference and duplicate.
    pictures : (s, s) uint8, twice
        The duplicate already turned like the reference.
    turned : Orientation
        How it was turned.
    alignment : Alignment
        From the reference to the turned duplicate.
    """
    reference, duplicate = records
    changes = []
    if turned.flipped or turned.upside_down:
        changes.append("flipped")
    if turned.inverted:
        changes.append("inverted")
    if alignment.degrees > STILL_DEGREES:
        changes.append("rotated")
    side = len(pictures[0])
    middle = np.array([side / 2, side / 2, 1.0])
    shift = float(np.abs(alignment.transform @ middle - middle[:2]).max()) / side
    scale = alignment.scale
    cropped = abs(scale - 1) > CROPPED or shift > CROPPED
    if cropped:
        changes.append("cropped")
    if abs(duplicate.width * scale / max(reference.width, 1) - 1) > RESIZED:
        changes.append("resized")
    changes += _grey_changes(pictures, alignment)
    return "+".join(changes) or "recompressed"


def _grey_changes(pictures: tuple[Picture, Picture], alignment: Alignment) -> list[str]:
    """Return "gamma" if the grey values follow another curve, and "text" if a small part differs much."""
    warped, inside = warp(pictures[1], alignment.transform)
    inside = cv2.erode(inside.astype(np.uint8), np.ones((EDGE, EDGE)), borderValue=0) > 0
    if not inside.any():
        return []
    first, second = smooth(pictures[0], SMOOTHING / 2), smooth(warped, SMOOTHING / 2)
    as_first = _curve(first, second, inside)
    written = float(np.mean(np.abs(first - as_first)[inside] > WRITTEN))
    unwritten = inside & (np.abs(first - second) <= WRITTEN * 2)
    curved = float(np.abs(as_first - second)[unwritten].mean()) if unwritten.any() else 0
    changes = ["gamma"] if curved > CURVED else []
    return [*changes, "text"] if TEXT_SHARES[0] < written < TEXT_SHARES[1] else changes


def _curve(first: Floats, second: Floats, inside: NDArray[np.bool_]) -> Floats:
    """Return `second` with the grey values that the first picture has in the median where it has these."""
    level = np.minimum((second[inside] * (LEVELS / 256)).astype(np.uint8), LEVELS - 1)
    order = np.argsort(level, kind="stable")
    ends = np.cumsum(np.bincount(level, minlength=LEVELS))[:-1]
    of_first, of_second = (np.split(picture[inside][order], ends) for picture in (first, second))
    present = [value for value in range(LEVELS) if len(of_first[value]) > 3]
    if not present:
        return second
    medians = [float(np.median(of_first[value])) for value in present]
    centres = [float(np.mean(of_second[value])) for value in present]
    return np.interp(second, centres, medians).astype(np.float32)


Proved = tuple[tuple[int, int], Proof]  # rows of a pair of duplicates, and why


class PairBlock(NamedTuple):
    """Pairs to compare, as rows of `squares` (n of them). rows: (n,) int64, their rows among all images."""

    pairs: PlacedPairs
    squares: Squares
    rows: NDArray[np.int64]


def compare_pairs(
    workers: PictureWorkers,
    squares: Squares,
    candidates: PlacedPairs,
    progress: Callable[[int, int], None],
) -> Iterator[Proved]:
    """Yield the pairs that are duplicates, in their order.

    Parameters
    ----------
    workers : PictureWorkers
    squares : Squares
    candidates : PlacedPairs
        Of their rows.
    progress : callable
        Called with pairs done and in all.
    """
    count = len(candidates.pairs)
    starts = range(0, count, TOGETHER)
    blocks = (_cut_out(squares, candidates, slice(start, start + TOGETHER)) for start in starts)
    for start, proved in zip(starts, workers.map(_compare, blocks), strict=True):
        progress(min(start + TOGETHER, count), count)
        yield from proved


def _cut_out(squares: Squares, candidates: PlacedPairs, part: slice) -> PairBlock:
    """Return some pairs with the squares that they need."""
    pairs = PlacedPairs._make(values[part] for values in candidates)
    rows = np.unique(pairs.pairs)
    return PairBlock(pairs._replace(pairs=np.searchsorted(rows, pairs.pairs)), squares.of(rows), rows)


def _compare(reader: PictureReader, block: PairBlock) -> list[Proved]:
    records = reader.collection.records(block.squares.numbers.tolist())
    pictures, rows = Pictures(reader, block.squares, records), block.rows.tolist()
    proofs = ((pair, prove(pictures, pair)) for pair in list_pairs(block.pairs))
    return [((rows[pair.first], rows[pair.second]), proof) for pair, proof in proofs if proof]
