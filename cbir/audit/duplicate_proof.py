"""Proof that two pictures are the same: their windows agree once the second is turned and aligned."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cbir.audit.alignment import IDENTITY, Alignment, align, align_from, compare, scaled
from cbir.audit.duplicate_pictures import SIDE, Pictures
from cbir.audit.picture_signatures import ORIENTATIONS
from cbir.gallery.vector_blocks import Floats

STILL = 0.993  # least median correlation of the windows of duplicates that have not moved
MOVED = 0.945  # least lower quartile, of duplicates that are rotated or cropped: others are seldom aligned by that
PROMISING = 0.9  # least median of the small pictures for which larger ones are read


class Proof(NamedTuple):
    """Proof of a pair: how the second picture is turned (index into ORIENTATIONS) and aligned."""

    orientation: int
    alignment: Alignment

    @property
    def confidence(self) -> float:
        """From .5 at the limit to 1."""
        value, limit = (
            (self.alignment.quarter, MOVED) if self.alignment.moved else (self.alignment.median, STILL)
        )
        return round(min(1.0, 0.5 + 0.5 * max(0.0, value - limit) / (1 - limit)), 3)

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
    first_small, second_small = pictures.squares[first], turn(pictures.squares[second])
    alignment = compare(first_small, second_small, IDENTITY)
    if movable and not _agrees(alignment):
        alignment = align(first_small, second_small, alignment, start)
    side = pictures.fine_side(first, second)
    if alignment.median < PROMISING:
        return None
    if side > SIDE:
        fine = pictures.fine(first, side), turn(pictures.fine(second, side))
        if alignment.moved:
            alignment = align_from(*fine, scaled(alignment.transform, side / SIDE))
        else:
            alignment = compare(*fine, scaled(alignment.transform, side / SIDE))
    return Proof(orientation, alignment) if _agrees(alignment) else None


def _agrees(alignment: Alignment) -> bool:
    return alignment.quarter >= MOVED if alignment.moved else alignment.median >= STILL
