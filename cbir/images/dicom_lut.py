"""DICOM lookup tables (PS3.3, C.7.6.3.1.5, C.11.1.1.1 and C.11.2.1.1)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset


@dataclass(frozen=True)
class LookupTable:
    """Lookup table.

    entries: outputs, float64. first: input of entries[0]. top: maximum output of the table's bit depth.
    """

    entries: NDArray[np.float64]
    first: int
    top: float

    def __call__(self, values: NDArray[np.generic]) -> NDArray[np.float64]:
        """Map values of any shape; values outside the table take its first or last entry."""
        indices = np.rint(values.astype(np.float64) - self.first)
        return self.entries[np.clip(indices, 0, len(self.entries) - 1).astype(np.intp)]


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
    ValueError
        If the table is empty.
    KeyError, TypeError, IndexError
        If it is incomplete.
    """
    count, first, bits = (int(number) for number in item[descriptor].value)
    count = count % 65536 or 65536
    first = (first + 32768) % 65536 - 32768 if signed else first % 65536
    raw = item[data].value
    entries = _words(raw, count, little) if isinstance(raw, bytes) else np.array(raw, np.float64, ndmin=1)
    if entries.size == 0:
        raise ValueError("a lookup table without entries")
    maximum = float(entries.max())
    top = 2.0 ** min(max(bits, 1), 16) - 1
    if bits > 8 and maximum <= 255 and descriptor != "LUTDescriptor":
        top = 255.0  # palettes of bytes often declare sixteen bits
    return LookupTable(entries[:count], first, max(top, maximum))


def _words(raw: bytes, count: int, little: bool) -> NDArray[np.float64]:
    """Read `count` entries of two bytes, or of one byte if there are not enough bytes."""
    if len(raw) < 2 * count:
        return np.frombuffer(raw, np.uint8).astype(np.float64)
    return np.frombuffer(raw[: 2 * count], "<u2" if little else ">u2").astype(np.float64)
