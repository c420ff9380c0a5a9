"""Lookup tables of DICOM (PS3.3, C.7.6.3.1.5, C.11.1.1.1 and C.11.2.1.1)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset


@dataclass(frozen=True)
class LookupTable:
    """entries: what values map to, float64. first: the value that maps to entries[0]. top: the greatest possible."""

    entries: NDArray[np.float64]
    first: int
    top: float

    def __call__(self, values: NDArray[np.generic]) -> NDArray[np.float64]:
        """Map values of any shape; those before the first entry take it, those behind the last take that."""
        places = np.rint(values.astype(np.float64) - self.first)
        return self.entries[np.clip(places, 0, len(self.entries) - 1).astype(np.intp)]


def lookup_table(
    item: Dataset, little: bool, signed: bool, descriptor: str = "LUTDescriptor", data: str = "LUTData"
) -> LookupTable:
    """A table from its two attributes. signed: whether the values it maps may be negative.

    Raises ValueError for one that is empty, and KeyError, TypeError or IndexError for one that is incomplete.
    """
    count, first, bits = (int(number) for number in item[descriptor].value)
    count = count % 65536 or 65536
    first = (first + 32768) % 65536 - 32768 if signed else first % 65536
    raw = item[data].value
    entries = (
        _words(raw, count, little) if isinstance(raw, bytes) else np.atleast_1d(np.asarray(raw, np.float64))
    )
    if entries.size == 0:
        raise ValueError("a lookup table without entries")
    greatest = float(entries.max())
    top = 2.0 ** min(max(bits, 1), 16) - 1
    if bits > 8 and greatest <= 255 and descriptor != "LUTDescriptor":
        top = 255.0  # palettes of bytes are often announced as of sixteen bits
    return LookupTable(entries[:count], first, max(top, greatest))


def _words(raw: bytes, count: int, little: bool) -> NDArray[np.float64]:
    """Entries of one byte where there are not two for each, else of two."""
    if len(raw) < 2 * count:
        return np.frombuffer(raw, np.uint8).astype(np.float64)
    return np.frombuffer(raw[: 2 * count], "<u2" if little else ">u2").astype(np.float64)
