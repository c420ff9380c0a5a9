"""Display pipeline of DICOM frames: stored values to uint8 pixels."""

from typing import cast

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset
from pydicom.pixels.processing import apply_color_lut

from cbir.errors import UnreadableImage
from cbir.images.bit_depth import Pixels, apply_window, drop_equal_channels, percentiles, weighted_percentiles
from cbir.images.dicom_dataset import first_number, integer
from cbir.images.dicom_frames import Stored
from cbir.images.dicom_lut import lookup_table
from cbir.images.image import Window, Windowing, row_blocks

Values = NDArray[np.float64]

GAPS = 16  # other values are apart from scattered padding by this part of the range of values
NEAR = 256  # its mean is as near to the padding value as this part
MAX_DISTINCT = 65536  # distinct values that are mapped by a table; above, each pixel is computed


def display_pixels(
    stored: Stored, dataset: Dataset, index: int, window: Window | None = None
) -> tuple[Pixels, Windowing | None]:
    """Convert one frame to the pixels to display.

    Grey values pass the modality LUT or rescaling (PS3.3, C.11.1), then the first VOI LUT or the first window,
    LINEAR, LINEAR_EXACT or SIGMOID (C.11.2), or, without one of positive width, the window from the 1st to the 99th
    percentile of the frame, without pixel padding (C.7.5.1.1.2). MONOCHROME1 is inverted after that. Functional
    groups of enhanced objects, per frame or shared (C.7.6.16.2.9 and .10), take precedence. Palettes are applied,
    colours of more than 8 bits divided by their maximum, overlays left out.

    Parameters
    ----------
    stored : (rows, columns) or (rows, columns, 3) array
        Stored values, RGB if they are colours.
    dataset : Dataset
        Data set of the frame.
    index : int
        Number of the frame, from 0.
    window : (float, float), optional
        Center and width, instead of those in the data set.

    Returns
    -------
    pixels : (rows, columns) or (rows, columns, 3) uint8
        Grey or RGB.
    windowing : Windowing or None
        Window of a grey frame.

    Raises
    ------
    UnreadableImage
        If values are not finite.
    """
    photometric = str(dataset.get("PhotometricInterpretation", "MONOCHROME2"))
    if stored.ndim == 3:
        return drop_equal_channels(_to_bytes(stored, 2.0 ** integer(dataset, "BitsStored", 8) - 1)), None
    if photometric == "PALETTE COLOR":
        return drop_equal_channels(_apply_palette(stored, dataset)), None
    if stored.dtype.kind == "f" and not np.isfinite(stored).all():
        raise UnreadableImage("has pixel values that are not finite; replace NaN and infinity")
    grey, windowing = _grey(stored, dataset, index, window)
    return (255 - grey if photometric == "MONOCHROME1" else grey), windowing


def _grey(stored: Stored, dataset: Dataset, index: int, window: Window | None) -> tuple[Pixels, Windowing]:
    little = dataset.original_encoding[1] is not False
    signed = integer(dataset, "PixelRepresentation", 0) == 1
    distinct, low = _distinct_values(stored)
    transformation = functional_group(dataset, index, "PixelValueTransformationSequence")
    values = _apply_modality_lut(distinct, transformation, little, signed)
    if not np.isfinite(values).all():
        raise UnreadableImage("has a rescaling to values that are not finite; export it again")
    negative = signed or bool(values.min() < 0)
    voi = functional_group(dataset, index, "FrameVOILUTSequence")
    minimum, maximum = float(values.min()), float(values.max())
    center, width = window or _first_window(voi) or _linear_window(minimum, maximum)
    grey = _apply_voi(values, voi, little, negative, window)
    if grey is None:
        darkest, brightest = _percentiles(values, stored, low, dataset)
        center, width = _linear_window(darkest, brightest)
        grey = apply_window(values, darkest, brightest)
    pixels = _look_up(grey, stored, low)
    return np.ascontiguousarray(pixels), Windowing(center, width, minimum, maximum)


def _percentiles(values: Values, stored: Stored, low: int | None, dataset: Dataset) -> Window:
    """Return the percentiles of the visible pixels, of all values if no pixel is visible."""
    padding = _padding_range(stored, dataset)
    if low is None:
        visible = _not_padding(stored, padding)
        return percentiles(values[visible] if visible.any() else values)
    counts = np.zeros(values.size, np.int64)
    for rows in row_blocks(*stored.shape):
        visible = _not_padding(stored[rows], padding)
        counts += np.bincount(stored[rows][visible].astype(np.intp) - low, minlength=values.size)
    return weighted_percentiles(values, counts) if counts.any() else percentiles(values)


def _look_up(table: Pixels, stored: Stored, low: int | None) -> Pixels:
    """Return the entry of each pixel in `table`, which begins with that of `low`; for None, it is the pixels."""
    if low is None:
        return table
    pixels = np.empty(stored.shape + table.shape[1:], table.dtype)
    for rows in row_blocks(*stored.shape):
        pixels[rows] = table[stored[rows].astype(np.intp) - low]
    return pixels


def _linear_window(low: float, high: float) -> Window:
    """Return center and width of the LINEAR window that maps low to black and high to white."""
    return (low + high + 1) / 2, high - low + 1


def _first_window(item: Dataset) -> Window | None:
    """Return center and width of the first window; None without one of positive width, or if a VOI LUT precedes."""
    center, width = first_number(item, "WindowCenter"), first_number(item, "WindowWidth")
    if item.get("VOILUTSequence") or center is None or width is None or width <= 0:
        return None
    return center, width


def _distinct_values(stored: Stored) -> tuple[NDArray[np.generic], int | None]:
    """Return the values to map: all integers in range and the lowest of them, or the pixels themselves and None."""
    if stored.dtype.kind == "f":
        return stored, None
    low, high = int(stored.min()), int(stored.max())
    if high - low >= MAX_DISTINCT:
        return stored, None
    return np.arange(low, high + 1), low


def functional_group(dataset: Dataset, index: int, macro: str) -> Dataset:
    """Return the item that applies to frame `index`: per-frame group, shared group, or the data set itself."""
    per_frame = dataset.get("PerFrameFunctionalGroupsSequence") or []
    shared = dataset.get("SharedFunctionalGroupsSequence") or []
    for group in (*per_frame[index : index + 1], *shared[:1]):
        if group.get(macro):
            return cast(Dataset, group[macro].value[0])
    return dataset


def _apply_modality_lut(values: NDArray[np.generic], item: Dataset, little: bool, signed: bool) -> Values:
    if item.get("ModalityLUTSequence"):
        return lookup_table(item.ModalityLUTSequence[0], little, signed)(values)
    slope, intercept = first_number(item, "RescaleSlope"), first_number(item, "RescaleIntercept")
    with np.errstate(over="ignore", invalid="ignore"):  # the caller checks for values that are not finite
        return values.astype(np.float64) * (slope or 1.0) + (intercept or 0.0)  # a slope of 0 would hide all


def _apply_voi(
    values: Values, item: Dataset, little: bool, signed: bool, window: Window | None
) -> Pixels | None:
    """Apply `window`, or the first VOI LUT or window; return None without one of positive width."""
    if window is None and item.get("VOILUTSequence"):
        entries = lookup_table(item.VOILUTSequence[0], little, signed)
        return apply_window(entries(values), 0, entries.top)
    window = window or _first_window(item)
    if window is None:
        return None
    center, width = window
    function = str(item.get("VOILUTFunction") or "LINEAR").strip().upper()
    if function == "SIGMOID":
        exponent = np.clip(-4 * (values - center) / width, -700, 700)
        return np.rint(255 / (1 + np.exp(exponent))).astype(np.uint8)
    if function == "LINEAR_EXACT" or width < 1:  # LINEAR is undefined below 1
        return apply_window(values, center - width / 2, center + width / 2)
    low = center - 0.5 - (width - 1) / 2
    return apply_window(values, low, low + width - 1)


def _not_padding(stored: Stored, padding: tuple[float, float] | None) -> NDArray[np.bool_]:
    """Mask the stored values outside of the range of pixel padding."""
    if padding is None:
        return np.ones(stored.shape, np.bool_)
    numbers = stored.astype(np.float64)
    return (numbers < padding[0]) | (numbers > padding[1])


def _padding_range(stored: Stored, dataset: Dataset) -> tuple[float, float] | None:
    """Return the lowest and the highest stored value of pixel padding; None without padding.

    Lossy compression scatters it evenly on both sides. In a lossy file, values around it belong to it if their mean
    is close to it and a gap separates them from all others.
    """
    padding = first_number(dataset, "PixelPaddingValue")
    if padding is None:
        return None
    limit = first_number(dataset, "PixelPaddingRangeLimit")
    low, high = sorted((padding, padding if limit is None else limit))
    if str(dataset.get("LossyImageCompression")) != "01":
        return low, high
    distinct, counts = np.unique(stored, return_counts=True)
    values = distinct.astype(np.float64)
    spread = values[-1] - values[0]
    gap, near = spread / GAPS, spread / NEAR
    clusters = np.split(np.arange(len(values)), np.flatnonzero(np.diff(values) > gap) + 1)
    for cluster in clusters:
        first, last = values[cluster[0]], values[cluster[-1]]
        mean = np.average(values[cluster], weights=counts[cluster])
        if first <= high and last >= low and low - near <= mean <= high + near:
            return min(low, first), max(high, last)
    return low, high


def _apply_palette(stored: Stored, dataset: Dataset) -> Pixels:
    """Convert palette indices to RGB (C.7.9)."""
    little = dataset.original_encoding[1] is not False
    signed = integer(dataset, "PixelRepresentation", 0) == 1
    distinct, low = _distinct_values(stored)
    colours = "RedPaletteColorLookupTable", "GreenPaletteColorLookupTable", "BluePaletteColorLookupTable"
    if "RedPaletteColorLookupTableData" in dataset:
        tables = [lookup_table(dataset, little, signed, f"{n}Descriptor", f"{n}Data") for n in colours]
        top = max(table.top for table in tables)
        rgb = np.stack([table(distinct) for table in tables], axis=-1)
    else:  # segmented
        rgb = apply_color_lut(distinct, dataset)[..., :3].astype(np.float64)
        top = 2.0 ** int(dataset[f"{colours[0]}Descriptor"].value[2]) - 1
    return _look_up(apply_window(rgb, 0, top), stored, low)


def _to_bytes(colour: Stored, top: float) -> Pixels:
    """Scale colours with maximum `top` to uint8."""
    if colour.dtype == np.uint8 and top >= 255:
        return colour.astype(np.uint8, copy=False)
    return apply_window(colour.astype(np.float64), 0, max(top, 1.0))
