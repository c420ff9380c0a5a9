"""Transforms of grey DICOM values for display: modality LUT or rescaling, then VOI LUT or window."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom import uid
from pydicom.dataset import Dataset
from pydicom.multival import MultiValue

from cbir.errors import UnreadableImage
from cbir.images.bit_depth import Pixels, apply_window
from cbir.images.dicom_dataset import finite_number, first_number
from cbir.images.image import Window
from cbir.images.stored_values import PixelFormat

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
        self, values: NDArray[np.generic], extremes: tuple[float, float] = (-inf, inf), step: float = 0
    ) -> NDArray[np.float64]:
        """Map values as a call does; raise UnusableTable if entries of these are missing, or all are alike.

        extremes: lowest and highest value that there can be, in this frame or another. step: alike are entries that
        differ by less, or not at all.
        """
        entries = self.entries
        if self.first > extremes[1] or self.first + self.count - 1 < extremes[0]:
            raise UnusableTable("no entry for any value")
        if len(entries) < self.count and float(values.max()) - self.first > len(entries) - 0.5:
            raise UnusableTable("too few entries")
        spread = entries.max() - entries.min()
        if len(entries) > 1 and (spread == 0 or spread < step):
            raise UnusableTable("entries that are alike")
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


Values = NDArray[np.float64]

# What is noted, in the order of the transforms.
MODALITY_LUT, RESCALING, VOI_LUT = "modality LUT", "rescaling", "VOI LUT"

WINDOW, VOI_FUNCTION = "window", "VOI LUT function"

# Their modality LUTs give intensities of X-rays, and are not for display (PS3.3, C.8.7.1.1.2; PS3.4, N.2.1).
BY_INTENSITY = (
    uid.XRayAngiographicImageStorage,
    uid.XRayRadiofluoroscopicImageStorage,
    "1.2.840.10008.5.1.4.1.1.12.3",  # of two planes, retired
)

FUNCTIONS = ("LINEAR", "LINEAR_EXACT", "SIGMOID")


@dataclass(frozen=True)
class FrameHeader:
    """Header of one frame.

    dataset: with the attributes of all frames. index: number of the frame, from 0. pixel_format: of its stored
    values. unusable: what could not be used, so far.
    """

    dataset: Dataset
    index: int
    pixel_format: PixelFormat
    unusable: list[str] = field(default_factory=list)

    @property
    def signed(self) -> bool:
        """True if stored values may be negative."""
        return self.pixel_format.signed

    @property
    def little(self) -> bool:
        """True if words of tables are little endian."""
        return self.dataset.original_encoding[1] is not False

    def items(self, macro: str) -> Iterator[Dataset]:
        """Yield the items that apply, first the most special: per-frame group, shared group, the data set itself."""
        yield from functional_groups(self.dataset, self.index, macro)
        yield self.dataset

    def note(self, attribute: str) -> None:
        """Note that an attribute is there, but cannot be used."""
        if attribute not in self.unusable:
            self.unusable.append(attribute)

    def modality_tables(self, item: Dataset) -> Iterator[Dataset]:
        """Yield the modality LUTs of an item that are for display."""
        if str(self.dataset.get("SOPClassUID") or "") not in BY_INTENSITY:
            yield from self.tables(item, "ModalityLUTSequence", MODALITY_LUT)

    def tables(self, item: Dataset, keyword: str, note: str) -> Iterator[Dataset]:
        """Yield the items of a sequence of tables; a damaged sequence has none."""
        try:
            yield from item.get(keyword) or ()
        except (UnreadableImage, MemoryError):
            raise
        except Exception:  # pydicom raises anything on damaged sequences
            self.note(note)


def functional_groups(dataset: Dataset, index: int, macro: str) -> Iterator[Dataset]:
    """Yield the macros of frame `index` in enhanced objects, per frame and shared (C.7.6.16.1)."""
    per_frame = dataset.get("PerFrameFunctionalGroupsSequence") or []
    shared = dataset.get("SharedFunctionalGroupsSequence") or []
    for group in (*per_frame[index : index + 1], *shared[:1]):
        if group.get(macro):
            yield group[macro].value[0]


def modality_values(stored: NDArray[np.generic], header: FrameHeader) -> Values:
    """Return stored values in units of the modality, such as HU, by modality LUT or rescaling (C.11.1), or as doses.

    A slope of 0, which would hide all, is taken for 1. Values that are not finite stay as they are.
    """
    for item in header.items("PixelValueTransformationSequence"):
        for table in header.modality_tables(item):
            try:
                return lookup_table(table, header.little, header.signed).map_grey(
                    stored, header.pixel_format.extremes
                )
            except UnusableTable:
                header.note(MODALITY_LUT)
        keywords = [key for key in ("RescaleSlope", "RescaleIntercept") if item.get(key) not in (None, "")]
        if not keywords:
            continue
        slope, intercept = first_number(item, "RescaleSlope"), first_number(item, "RescaleIntercept")
        if any(first_number(item, keyword) is None for keyword in keywords) or slope == 0:
            header.note(RESCALING)
        with np.errstate(over="ignore", invalid="ignore"):
            values = stored.astype(np.float64) * (slope or 1.0) + (intercept or 0.0)
        if (np.isfinite(values) | ~np.isfinite(stored)).all():
            return values
        header.note(RESCALING)
    scaling = first_number(header.dataset, "DoseGridScaling")  # C.8.8.3
    return stored.astype(np.float64) * (scaling if scaling and scaling > 0 else 1.0)


def voi_pixels(
    values: Values, header: FrameHeader, window: Window | None = None
) -> tuple[Pixels, Window | None] | None:
    """Map values by the first VOI LUT or window that can be used (C.11.2).

    Parameters
    ----------
    values : float64 array of any shape
        In units of the modality.
    header : FrameHeader
        Header of the frame.
    window : (float, float), optional
        Center and width, instead of those in the header.

    Returns
    -------
    (uint8 array, window or None) or None
        Pixels, with the window that was applied, None for a VOI LUT; None if there is nothing to use.
    """
    if window is not None:
        function = _function(next(header.items("FrameVOILUTSequence")), header)
        return _apply_function(values, window, function), window
    signed = header.signed or _may_be_negative(values, header)
    extremes = _modality_extremes(header)
    doubtful = MODALITY_LUT in header.unusable  # what follows may be meant for other values
    for item in header.items("FrameVOILUTSequence"):
        for table in header.tables(item, "VOILUTSequence", VOI_LUT):
            try:
                entries = lookup_table(table, header.little, signed)
                levels = entries.map_grey(values, extremes, entries.top / 255)
                return apply_window(levels, 0, entries.top), None
            except UnusableTable:
                header.note(VOI_LUT)
        for window in _windows(item, header):
            function = _function(item, header)
            pixels = _apply_function(values, window, function)
            darkest, brightest = _apply_function(np.array(extremes), window, function)
            if darkest < brightest and (not doubtful or pixels.min() < pixels.max()):
                return pixels, window
            header.note(WINDOW)
    return None


def _modality_extremes(header: FrameHeader) -> Window:
    """Return the lowest and the highest value of the modality that there can be."""
    if header.pixel_format.floats or MODALITY_LUT in header.unusable:
        return -inf, inf
    for item in header.items("PixelValueTransformationSequence"):
        for table in header.modality_tables(item):  # the first is in use
            entries = lookup_table(table, header.little, header.signed).entries
            return float(entries.min()), float(entries.max())
    ends = modality_values(np.array(header.pixel_format.extremes), header)
    return float(ends.min()), float(ends.max())


def _may_be_negative(values: Values, header: FrameHeader) -> bool:
    """Return whether values of the modality have a sign, also if this frame has none below 0."""
    intercepts = (
        first_number(item, "RescaleIntercept") for item in header.items("PixelValueTransformationSequence")
    )
    return bool(values.min() < 0) or any((intercept or 0) < 0 for intercept in intercepts)


def _windows(item: Dataset, header: FrameHeader) -> Iterator[Window]:
    """Yield center and width of each window of positive width."""
    centers, widths = _numbers(item, "WindowCenter"), _numbers(item, "WindowWidth")
    for center, width in zip(centers, widths, strict=False):
        if center is not None and width is not None and width > 0:
            yield center, width
        else:
            header.note(WINDOW)
    if len(centers) != len(widths):
        header.note(WINDOW)


def _numbers(item: Dataset, keyword: str) -> list[float | None]:
    """Return the values of an attribute, None for those that are no finite numbers."""
    try:
        value: Any = item.get(keyword)
    except (TypeError, ValueError):
        return [None]
    if value in (None, ""):
        return []
    return [
        finite_number(one) for one in (value if isinstance(value, (list, tuple, MultiValue)) else [value])
    ]


def _function(item: Dataset, header: FrameHeader) -> str:
    function = str(item.get("VOILUTFunction") or "LINEAR").strip().upper()
    if function in FUNCTIONS:
        return function
    header.note(VOI_FUNCTION)
    return "LINEAR"


def _apply_function(values: Values, window: Window, function: str) -> Pixels:
    center, width = window
    if function == "SIGMOID":
        exponent = np.clip(-4 * (values - center) / width, -700, 700)
        return np.rint(255 / (1 + np.exp(exponent))).astype(np.uint8)
    if function == "LINEAR_EXACT" or width < 1:  # LINEAR is undefined below 1
        return apply_window(values, center - width / 2, center + width / 2)
    low = center - 0.5 - (width - 1) / 2
    return apply_window(values, low, low + width - 1)
