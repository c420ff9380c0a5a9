"""Rows of characters in a picture: places where text may be, found by the shapes of strokes."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

LEAST_SIDE, GREATEST_SIDE = 480, 2048  # of the picture that is searched
STROKE = 13  # pixels, wider ones are no strokes
LEVELS = (24, 48, 90)  # contrast of strokes to what surrounds them
LEAST_HEIGHT, GREATEST_HEIGHT = 6, 90  # of characters in the picture that is searched
LEAST_CHARACTERS = 3
LEAST_WORD, GREATEST_WORD = 2.0, 12.0  # width over height of strokes that are joined to a word
BLOCK = 256  # shapes compared at a time
MOST_SHAPES = 6000  # of a level; more are noise

Grey = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class TextLine:
    """Box of a row of shapes in pixels of the picture. shapes: their number."""

    left: float
    top: float
    right: float
    bottom: float
    shapes: int


@dataclass(frozen=True, eq=False)
class _Shapes:
    """Boxes of connected strokes, ordered by their left edge."""

    left: Floats
    bottom: Floats
    width: Floats
    height: Floats

    @property
    def right(self) -> Floats:
        return self.left + self.width


def find_text_lines(grey: Grey) -> list[TextLine]:
    """Return the boxes of rows of character-like shapes, and of words whose characters touch; those with most first.

    Strokes are what an opening by a square of 13 pixels removes: brighter than their surroundings, or darker. Most
    boxes of a medical image are none of text, so that they have to be read.

    Parameters
    ----------
    grey : (height, width) uint8
        Picture of at least one pixel.
    """
    longer = max(grey.shape)
    scale = (
        min(max(LEAST_SIDE / longer, 1.0), 2.0) if longer < LEAST_SIDE else min(1.0, GREATEST_SIDE / longer)
    )
    if scale != 1.0:
        enlarge = cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA
        grey = np.asarray(cv2.resize(grey, None, fx=scale, fy=scale, interpolation=enlarge), np.uint8)
    framed = cv2.copyMakeBorder(grey, STROKE, STROKE, STROKE, STROKE, cv2.BORDER_REPLICATE)
    square = cv2.getStructuringElement(cv2.MORPH_RECT, (STROKE, STROKE))
    lines: set[TextLine] = set()
    for operation in (cv2.MORPH_TOPHAT, cv2.MORPH_BLACKHAT):
        strokes = cv2.morphologyEx(framed, operation, square)[STROKE:-STROKE, STROKE:-STROKE]
        for level in LEVELS:
            lines.update(_lines(strokes > level, scale))
    return sorted(lines, key=lambda line: (-line.shapes, line.top, line.left, line.right))


def _lines(strokes: NDArray[np.bool_], scale: float) -> list[TextLine]:
    shapes = _character_shapes(strokes)
    count = len(shapes.left)
    if not 1 <= count <= MOST_SHAPES:
        return []
    following = _following(shapes)
    begins = np.ones(count, bool)
    begins[following[following >= 0]] = False
    lines = []
    for start in np.flatnonzero(begins):
        chain = [int(start)]
        while following[chain[-1]] >= 0:
            chain.append(int(following[chain[-1]]))
        top, bottom = (shapes.bottom - shapes.height)[chain].min(), shapes.bottom[chain].max()
        left, right = shapes.left[chain].min(), shapes.right[chain].max()
        if len(chain) >= LEAST_CHARACTERS or right - left >= LEAST_WORD * (bottom - top):
            edges = left, top, right, bottom
            left, top, right, bottom = (float(edge) / scale for edge in edges)
            lines.append(TextLine(left, top, right, bottom, len(chain)))
    return lines


def _character_shapes(strokes: NDArray[np.bool_]) -> _Shapes:
    """Return the connected strokes that have the size and the fill of characters."""
    _, _, table, _ = cv2.connectedComponentsWithStats(strokes.view(np.uint8), connectivity=8)
    left, top, width, height, area = table[1:].T
    high = (height >= LEAST_HEIGHT) & (height <= GREATEST_HEIGHT) & (width <= GREATEST_WORD * height)
    fill = area / (width * height)
    characters = np.flatnonzero(
        high & (fill >= 0.12) & (area >= LEAST_HEIGHT) & ((width <= 2 * height) | (fill <= 0.85))
    )
    characters = characters[np.argsort(left[characters], kind="stable")]
    columns = (left[characters], (top + height)[characters], width[characters], height[characters])
    return _Shapes(*(column.astype(np.float32) for column in columns))


def _following(shapes: _Shapes) -> NDArray[np.int64]:
    """Return for each shape the nearest one to its right of like height on the same line, -1 if there is none."""
    count, right = len(shapes.left), shapes.right
    following = np.full(count, -1, np.int64)
    reach = right + 1.3 * np.float32(GREATEST_HEIGHT)
    for start in range(0, count, BLOCK):
        block = slice(start, min(start + BLOCK, count))
        last = int(np.searchsorted(shapes.left, reach[block].max()))
        followers = slice(start, last)
        height = np.maximum(shapes.height[block, None], shapes.height[None, followers])
        lower = np.minimum(shapes.height[block, None], shapes.height[None, followers])
        gap = shapes.left[None, followers] - right[block, None]
        fits = (gap > -0.3 * height) & (gap < 1.3 * height) & (lower > 0.6 * height)
        fits &= np.abs(shapes.bottom[block, None] - shapes.bottom[None, followers]) < 0.25 * height
        fits &= shapes.left[None, followers] > (shapes.left + 0.3 * shapes.width)[block, None]
        nearest = np.where(fits, gap, np.inf).argmin(axis=1)
        found = fits[np.arange(len(nearest)), nearest]
        following[block] = np.where(found, nearest + start, -1)
    return following
