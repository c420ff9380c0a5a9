"""DICOM lookup tables (PS3.3, C.7.6.3.1.5, C.11.1.1.1 and C.11.2.1.1)."""

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset

WORD = 65536  # number of values of two bytes


class UnusableTable(ValueError):
    """A lookup table that is incomplete, or would show nothing."""


@dataclass(frozen=True)
class LookupTable:
    """Lookup table.

    entries: outputs, float64. first: input of entries[0]. top: maximum output of the table's bit depth. count: number
    of entries that the descriptor declares.
    """

    entries: NDArray[np.float64]
    first: int
    top: float
    count: int

    def __call__(self, values: NDArray[np.generic]) -> NDArray[np.float64]:
        """Map values of any shape; values outside the table take its first or last entry."""
        indices = np.rint(values.astype(np.float64) - self.first)
        return self.entries[np.clip(indices, 0, len(self.entries) - 1).astype(np.intp)]

    def map_grey(
        self, values: NDArray[np.generic], extremes: tuple[float, float] = (-inf, inf)
    ) -> NDArray[np.float64]:
        """Map values as a call does; raise UnusableTable if entries of these are missing, or all would look alike.

        extremes: lowest and highest value that there can be, in this frame or another.
        """
        entries = self.entries
        if self.first > extremes[1] or self.first + self.count - 1 < extremes[0]:
            raise UnusableTable("no entry for any value")
        if len(entries) < self.count and float(values.max()) - self.first > len(entries) - 0.5:
            raise UnusableTable("too few entries")
        if len(entries) > 1 and entries.max() - entries.min() < self.top / 255:
            raise UnusableTable("entries that look alike")
        return self(values)


def lookup_table(
    item: Dataset, little: bool, signed: bool, descriptor: str = "LUTDescriptor", data: str = "LUTData"
) -> LookupTable:
    """Read a lookup table from two attributes.

    Parameters
    ----------
    item : Dataset
        Data set or sequence item with the table.
    little : bool
        True if its words are little endian.
    signed : bool
        True if the input values may be negative.
    descriptor, data : str
        Keywords of the two attributes.

    Raises
    ------
    UnusableTable
        If an attribute is missing, empty or not of this form.
    """
    try:
        count, first, bits = (int(number) for number in item[descriptor].value)
        raw = item[data].value
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UnusableTable("incomplete") from error
    count = count % WORD or WORD
    first = (first + WORD // 2) % WORD - WORD // 2 if signed else first % WORD
    is_palette = descriptor != "LUTDescriptor"
    entries = _entries(raw, count, bits, little, is_palette)
    if entries.size == 0:
        raise UnusableTable("no entries")
    maximum = float(entries.max())
    top = 2.0 ** min(max(bits, 1), 16) - 1
    if bits > 8 and maximum <= 255 and is_palette:
        top = 255.0  # palettes of bytes often declare sixteen bits
    return LookupTable(entries[:count], first, max(top, maximum), count)


def _entries(raw: Any, count: int, bits: int, little: bool, is_palette: bool) -> NDArray[np.float64]:
    """Return entries of the width that the descriptor gives.

    Entries of at most 8 bits have a word each, or half of one; so do bytes of palettes that declare sixteen bits.
    """
    if raw is None:
        return np.empty(0)
    if not isinstance(raw, bytes):
        try:
            numbers = np.array(raw, np.int64, ndmin=1) % WORD
        except (TypeError, ValueError, OverflowError) as error:
            raise UnusableTable("entries that are no numbers") from error
        if bits <= 8 and numbers.size and numbers.max() > 255:  # two in each word
            return numbers.astype("<u2").view(np.uint8).astype(np.float64)
        return numbers.astype(np.float64)
    if len(raw) < 2 * count if bits <= 8 else is_palette and len(raw) in (count, count + count % 2):
        return np.frombuffer(raw, np.uint8).astype(np.float64)
    words = raw[: min(2 * count, len(raw) // 2 * 2)]
    return np.frombuffer(words, "<u2" if little else ">u2").astype(np.float64)
