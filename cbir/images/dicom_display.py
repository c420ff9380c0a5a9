"""Stored values of a DICOM frame to the pixels that are to be seen."""

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset
from pydicom.pixels import apply_color_lut

from cbir.errors import UnreadableImage
from cbir.images.bit_depth import Pixels, apply_window, drop_equal_channels, percentiles, weighted_percentiles
from cbir.images.dicom_dataset import first_number, integer
from cbir.images.dicom_frames import Stored
from cbir.images.dicom_lut import lookup_table
from cbir.images.image import Windowing

Values = NDArray[np.float64]

TABLED = 65536  # values a table is made for; above, each pixel is computed


def display_pixels(
    stored: Stored, dataset: Dataset, index: int, wanted: tuple[float, float] | None = None
) -> tuple[Pixels, Windowing | None]:
    """Grey (rows, columns) or RGB (rows, columns, 3), uint8, of one frame, and the window of grey ones.

    stored: (rows, columns) or (rows, columns, 3) RGB, as stored. index: the frame's number from 0.
    wanted: center and width to take instead of what the data set says.

    Grey values pass the modality table or rescaling (PS3.3, C.11.1), then the first VOI table or the first window,
    LINEAR, LINEAR_EXACT or SIGMOID (C.11.2), or, without one of positive width, the window from the 1st to the 99th
    percentile of the frame, leaving out pixel padding (C.7.5.1.1.2). MONOCHROME1 is inverted after that. Enhanced
    objects say these things in functional groups of the frame or of all (C.7.6.16.2.9 and .10), which go first.
    Palettes are applied, colours of more than 8 bits divided by their greatest value, overlays left out.

    Raises UnreadableImage for values that are not finite.
    """
    photometric = str(dataset.get("PhotometricInterpretation", "MONOCHROME2"))
    if stored.ndim == 3:
        return drop_equal_channels(_eight(stored, 2.0 ** integer(dataset, "BitsStored", 8) - 1)), None
    if photometric == "PALETTE COLOR":
        return drop_equal_channels(_coloured(stored, dataset)), None
    if stored.dtype.kind == "f" and not np.isfinite(stored).all():
        raise UnreadableImage("has pixel values that are not finite; replace NaN and infinity by numbers")
    grey, windowing = _grey(stored, dataset, index, wanted)
    return (255 - grey if photometric == "MONOCHROME1" else grey), windowing


def _grey(
    stored: Stored, dataset: Dataset, index: int, wanted: tuple[float, float] | None
) -> tuple[Pixels, Windowing]:
    little = dataset.original_encoding[1] is not False
    signed = integer(dataset, "PixelRepresentation", 0) == 1
    domain, places = _domain(stored)
    values = _modality(domain, _governing(dataset, index, "PixelValueTransformationSequence"), little, signed)
    if not np.isfinite(values).all():
        raise UnreadableImage("has a rescaling that leads to values that are not finite; export it again")
    negative = signed or bool(values.min() < 0)
    item = _governing(dataset, index, "FrameVOILUTSequence")
    least, greatest = float(values.min()), float(values.max())
    center, width = wanted or _window_of(item) or _between(least, greatest)
    grey = _windowed(values, item, little, negative, wanted)
    if grey is None:
        low, high = _percentiles(values, places, _visible(stored, dataset))
        center, width = _between(low, high)
        grey = apply_window(values, low, high)
    return np.ascontiguousarray(grey[places]), Windowing(center, width, least, greatest)


def _percentiles(
    values: Values, places: tuple[NDArray[np.intp]] | tuple[()], visible: NDArray[np.bool_]
) -> tuple[float, float]:
    """Of the visible pixels' values; where there are none, of all values."""
    if not visible.any():
        return percentiles(values)
    if not places:
        return percentiles(values[visible])
    seen = places[0].ravel() if visible.all() else places[0][visible]
    return weighted_percentiles(values, np.bincount(seen, minlength=values.size))


def _between(low: float, high: float) -> tuple[float, float]:
    """Center and width of the window LINEAR that makes low black and high white."""
    return (low + high + 1) / 2, high - low + 1


def _window_of(item: Dataset) -> tuple[float, float] | None:
    """Center and width of the first window; None where there is none of positive width, or a table goes first."""
    centre, width = first_number(item, "WindowCenter"), first_number(item, "WindowWidth")
    if item.get("VOILUTSequence") or centre is None or width is None or width <= 0:
        return None
    return centre, width


def _domain(stored: Stored) -> tuple[NDArray[np.generic], tuple[NDArray[np.intp]] | tuple[()]]:
    """The values to compute, and where each pixel finds its own: every whole number in range, else each pixel's."""
    if stored.dtype.kind == "f":
        return stored, ()
    low, high = int(stored.min()), int(stored.max())
    if high - low >= TABLED:
        return stored, ()
    return np.arange(low, high + 1), (stored.astype(np.intp) - low,)


def _governing(dataset: Dataset, index: int, macro: str) -> Dataset:
    """What says how frame `index` is shown: its functional group, that of all frames, or the data set itself."""
    each = dataset.get("PerFrameFunctionalGroupsSequence") or []
    shared = dataset.get("SharedFunctionalGroupsSequence") or []
    for group in (*each[index : index + 1], *shared[:1]):
        if group.get(macro):
            return group[macro].value[0]
    return dataset


def _modality(values: NDArray[np.generic], item: Dataset, little: bool, signed: bool) -> Values:
    if item.get("ModalityLUTSequence"):
        return lookup_table(item.ModalityLUTSequence[0], little, signed)(values)
    slope, intercept = first_number(item, "RescaleSlope"), first_number(item, "RescaleIntercept")
    with np.errstate(over="ignore", invalid="ignore"):  # told of by the caller
        return values.astype(np.float64) * (slope or 1.0) + (intercept or 0.0)  # a slope of 0 would hide all


def _windowed(
    values: Values, item: Dataset, little: bool, signed: bool, wanted: tuple[float, float] | None
) -> Pixels | None:
    """Values through the wanted window, the first VOI table or window; None where there is none of positive width."""
    if wanted is None and item.get("VOILUTSequence"):
        entries = lookup_table(item.VOILUTSequence[0], little, signed)
        return apply_window(entries(values), 0, entries.top)
    told = wanted or _window_of(item)
    if told is None:
        return None
    centre, width = told
    function = str(item.get("VOILUTFunction") or "LINEAR").strip().upper()
    if function == "SIGMOID":
        return np.rint(255 / (1 + np.exp(np.clip(-4 * (values - centre) / width, -700, 700)))).astype(
            np.uint8
        )
    if function == "LINEAR_EXACT" or width < 1:  # LINEAR has no meaning below 1
        return apply_window(values, centre - width / 2, centre + width / 2)
    low = centre - 0.5 - (width - 1) / 2
    return apply_window(values, low, low + width - 1)


def _visible(stored: Stored, dataset: Dataset) -> NDArray[np.bool_]:
    """Where the stored values are no padding."""
    padding = first_number(dataset, "PixelPaddingValue")
    if padding is None:
        return np.ones(stored.shape, np.bool_)
    limit = first_number(dataset, "PixelPaddingRangeLimit")
    least, most = sorted((padding, padding if limit is None else limit))
    numbers = stored.astype(np.float64)
    return (numbers < least) | (numbers > most)


def _coloured(stored: Stored, dataset: Dataset) -> Pixels:
    """Palette numbers to RGB (C.7.9)."""
    little = dataset.original_encoding[1] is not False
    signed = integer(dataset, "PixelRepresentation", 0) == 1
    domain, places = _domain(stored)
    colours = "RedPaletteColorLookupTable", "GreenPaletteColorLookupTable", "BluePaletteColorLookupTable"
    if "RedPaletteColorLookupTableData" in dataset:
        tables = [
            lookup_table(dataset, little, signed, f"{name}Descriptor", f"{name}Data") for name in colours
        ]
        top = max(each.top for each in tables)
        rgb = np.stack([each(domain) for each in tables], axis=-1)
    else:  # segmented
        rgb = apply_color_lut(domain, dataset)[..., :3].astype(np.float64)
        top = 2.0 ** int(dataset[f"{colours[0]}Descriptor"].value[2]) - 1
    return apply_window(rgb, 0, top)[places]


def _eight(colour: Stored, top: float) -> Pixels:
    """Colours whose greatest possible value is `top` as bytes."""
    if colour.dtype == np.uint8 and top >= 255:
        return colour.astype(np.uint8, copy=False)
    return apply_window(colour.astype(np.float64), 0, max(top, 1.0))
