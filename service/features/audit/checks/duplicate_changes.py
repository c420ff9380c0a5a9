"""Changes that make a duplicate differ from its reference."""

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats
from cbir.store import Record
from service.features.audit.checks.alignment import SMOOTHING, STILL_DEGREES, Alignment, smooth, warp
from service.features.audit.checks.duplicate_pictures import Picture
from service.features.audit.checks.picture_signatures import Orientation

LEVELS = 32  # of the curve of grey values
CROPPED = 0.03  # of the scale, or of the side that the middle moves by
RESIZED = 0.03
CURVED = 6.0  # mean grey levels between the curve and a straight line
WRITTEN = 45.0  # grey levels of a pixel that was written over
EDGE = 7  # pixels beside what the duplicate lacks that do not count
TEXT_SHARES = 0.001, 0.15  # of the pixels


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
