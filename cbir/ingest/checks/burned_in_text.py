"""Text burned into the pixels of an image, found by reading what looks like a row of characters."""

import re
from dataclasses import dataclass

import numpy as np

from cbir.ingest.checks.stroke_rows import Grey, TextLine, find_text_lines
from cbir.ingest.checks.text_reader import Characters, load_reader

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
