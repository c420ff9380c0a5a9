"""Text burned into the pixels of an image: places that look like rows of characters, read by the PP-OCRv6 network."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.networks.model_card import open_onnx_session
from cbir.errors import InvalidInput
from cbir.system.remedies import install_command

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


WEIGHTS = "PP-OCRv6_rec_small.onnx"

HEIGHT, LEAST_WIDTH, GREATEST_WIDTH = 48, 48, 320  # of the network's input

STEP = 16  # widths are multiples of it

MARGIN = 0.3  # around a line, in its heights

Characters = list[tuple[str, float]]


class TextReader:
    """Reads lines; the network runs in one thread. Thread-safe."""

    def __init__(self) -> None:
        self._session: Any = open_onnx_session(reader_path().read_bytes(), threads=1)
        characters = self._session.get_modelmeta().custom_metadata_map["character"].splitlines()
        self._characters = ["", *characters, " "]
        self._input = self._session.get_inputs()[0].name

    def read(self, grey: Grey, line: TextLine) -> Characters:
        """Return the characters in a line with their probabilities, by connectionist temporal classification.

        Parameters
        ----------
        grey : (height, width) uint8
            Picture.
        line : TextLine
            Box in it; of a longer line only its beginning is read.
        """
        values = _input_values(grey, line)
        shares = self._session.run(None, {self._input: values})[0][0]
        best = shares.argmax(axis=1)
        is_new = (best > 0) & np.r_[True, best[1:] != best[:-1]]
        steps = np.flatnonzero(is_new & (best < len(self._characters)))
        return [(self._characters[best[step]], float(shares[step, best[step]])) for step in steps]


@cache
def load_reader() -> TextReader:
    """Return the reader of this process."""
    return TextReader()


def reader_path() -> Path:
    """Return the file with the network; raises InvalidInput with the remedy if its package is not installed."""
    spec = find_spec("rapidocr")
    path = Path(spec.origin).parent / "models" / WEIGHTS if spec and spec.origin else None
    if path is None or not path.is_file():
        raise InvalidInput(f"the intake check needs rapidocr 3.10 or later: {install_command('intake')}")
    return path


def _input_values(grey: Grey, line: TextLine) -> Any:
    margin = MARGIN * (line.bottom - line.top) + 1
    top, bottom = max(0, round(line.top - margin)), round(line.bottom + margin)
    left, right = max(0, round(line.left - margin)), round(line.right + margin)
    part = grey[top : max(bottom, top + 1), left : max(right, left + 1)]
    scale = HEIGHT / part.shape[0]
    part = part[:, : max(1, int(GREATEST_WIDTH / scale))]
    size = (max(STEP, min(GREATEST_WIDTH, round(part.shape[1] * scale))), HEIGHT)
    resized = cv2.resize(part, size, interpolation=cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA)
    width = min(max(LEAST_WIDTH, -(-size[0] // STEP) * STEP), GREATEST_WIDTH)
    values = np.zeros((1, 3, HEIGHT, width), np.float32)
    values[..., : size[0]] = resized.astype(np.float32) / 127.5 - 1
    return values


READ_LINES = 5  # of an image, those with most shapes

CLEAR, LEGIBLE = 0.9, 0.7  # probabilities of a character

LEAST_CLEAR, LEAST_LEGIBLE = 3, 5  # different ones: lead letters have fewer, and teeth read as 1111

# In a text of so few characters or fewer all are clearer: the holes of a sacrum read as "pay"
FEW, CLEAREST = 4, 0.95

# Words of markers on radiographs, which say nothing about a patient
MARKERS = frozenset(
    (
        "LEFT",
        "RIGHT",
        "ERECT",
        "SUPINE",
        "PRONE",
        "UPRIGHT",
        "STANDING",
        "SITTING",
        "PORTABLE",
        "DECUB",
        "LAT",
        "OBL",
    )
)

OVERLAP = 0.5  # of the height of lines that are the same


@dataclass(frozen=True)
class BurnedInText:
    """Text in the pixels: the first line that was read. characters: read in it; the text itself is not kept.

    looks_personal: it has a date, a long number, or two or more words of letters.
    """

    line: TextLine
    characters: int
    looks_personal: bool


def find_burned_in_text(grey: Grey) -> BurnedInText | None:
    """Return the most legible of the lines of text in a picture; None if none can be read.

    Text has three different letters or digits that are read with a probability of .9 or more, or five of .7 or more.
    Lead letters (L, R, AP) and the words of markers (LEFT, PORTABLE, ...) do not count.

    Parameters
    ----------
    grey : (height, width) uint8
        Picture of at least one pixel.
    """
    lines = _different_lines(find_text_lines(grey))[:READ_LINES]
    for line in lines:
        characters = load_reader().read(grey, line)
        text = "".join(character for character, share in characters if share >= LEGIBLE)
        if _is_text(characters) and not _is_marker(text):
            return BurnedInText(line, sum(map(str.isalnum, text)), looks_personal(text))
    return None


def looks_personal(text: str) -> bool:
    """Return whether a text has a date, a number of five digits or more, or two words of three letters or more."""
    date = re.search(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}", text)
    number = re.search(r"\d{5}", text)
    return bool(date or number or len(re.findall(r"[^\W\d_]{3,}", text)) >= 2)


def _is_text(characters: Characters) -> bool:
    if len(characters) <= FEW and any(share < CLEAREST for _, share in characters):
        return False
    read = [(character, share) for character, share in characters if character.isalnum()]
    clear = {character for character, share in read if share >= CLEAR}
    legible = {character for character, share in read if share >= LEGIBLE}
    return len(clear) >= LEAST_CLEAR or len(legible) >= LEAST_LEGIBLE


def _is_marker(text: str) -> bool:
    words = re.findall(r"\w+", text.upper())
    return all(word in MARKERS or len(word) < LEAST_CLEAR for word in words)


def _different_lines(lines: list[TextLine]) -> list[TextLine]:
    """Leave out lines that lie in another one with as many shapes or more."""
    kept: list[TextLine] = []
    for line in lines:
        if not any(_covers(other, line) for other in kept):
            kept.append(line)
    return kept


def _covers(other: TextLine, line: TextLine) -> bool:
    across = min(other.right, line.right) - max(other.left, line.left)
    down = min(other.bottom, line.bottom) - max(other.top, line.top)
    height = max(line.bottom - line.top, other.bottom - other.top)
    return bool(across > OVERLAP * (line.right - line.left) and down > OVERLAP * np.float64(height))
