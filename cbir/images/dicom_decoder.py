"""Decoding of DICOM files to images with header fields; their display pipeline from stored values to uint8 pixels."""

from collections.abc import Iterator
from math import inf

import numpy as np
from numpy.typing import NDArray
from pydicom import uid
from pydicom.dataset import Dataset
from pydicom.pixels.processing import apply_color_lut

from cbir.errors import UnreadableImage
from cbir.images.bit_depth import Pixels, apply_window, drop_equal_channels, percentiles, weighted_percentiles
from cbir.images.dicom_dataset import first_number, frame_count, parse_dataset
from cbir.images.dicom_facts import (
    first_text,
    laterality,
    patient_age,
    patient_sex,
    read_slice_place,
    series_description,
    view_position,
)
from cbir.images.dicom_frames import stored_frames
from cbir.images.grey_transforms import (
    FrameHeader,
    Values,
    functional_groups,
    lookup_table,
    modality_values,
    voi_pixels,
)
from cbir.images.image import (
    DicomHeader,
    Image,
    Limits,
    ScaledValues,
    Window,
    Windowing,
    line_through,
    row_blocks,
    scale_values,
    smallest_type,
)
from cbir.images.stored_values import PixelFormat, Stored, read_pixel_format

GAPS = 16  # other values are apart from scattered padding by this part of the range of values

NEAR = 256  # its mean is as near to the padding value as this part

FLOAT_PADDINGS = ("Float", "DoubleFloat")  # first words of their keywords

MAX_DISTINCT = 65536  # distinct values that are mapped by a table; above, each pixel is computed


def display_pixels(
    stored: Stored, header: FrameHeader, pixel_format: PixelFormat, window: Window | None = None
) -> tuple[Pixels, Windowing | None]:
    """Convert one frame to the pixels to display.

    Grey values pass the modality LUT or rescaling (PS3.3, C.11.1), then the first VOI LUT or the first window that
    can be used, LINEAR, LINEAR_EXACT or SIGMOID (C.11.2), or, without one, the window from the 1st to the 99th
    percentile of the frame, without pixel padding (C.7.5.1.1.2). MONOCHROME1 is inverted after that. Floats that are
    padding or NaN are as dark as the darkest of the others, and do not count for their range. Functional groups of
    enhanced objects, per frame or shared (C.7.6.16.2.9 and .10), take precedence. Palettes are applied, colours of
    more than 8 bits divided by their maximum, overlays left out.

    Parameters
    ----------
    stored : (rows, columns) or (rows, columns, 3) array
        Stored values, RGB if they are colours.
    header : FrameHeader
        Header of the frame; gets a note of each attribute that is there, but cannot be used.
    pixel_format : PixelFormat
        Format of the stored values.
    window : (float, float), optional
        Center and width, instead of those in the header.

    Returns
    -------
    pixels : (rows, columns) or (rows, columns, 3) uint8
        Grey or RGB.
    windowing : Windowing or None
        Window of a grey frame.

    Raises
    ------
    UnreadableImage
        If no value is finite, or there is no palette for the indices of one.
    """
    if stored.ndim == 3:
        return drop_equal_channels(_to_bytes(stored, 2.0**pixel_format.stored - 1)), None
    if pixel_format.photometric == "PALETTE COLOR":
        return drop_equal_channels(_apply_palette(stored, header)), None
    grey, windowing = _grey(stored, header, pixel_format, window)
    return (255 - grey if pixel_format.photometric == "MONOCHROME1" else grey), windowing


def _grey(
    stored: Stored, header: FrameHeader, pixel_format: PixelFormat, window: Window | None
) -> tuple[Pixels, Windowing]:
    padding = _padding_range(stored, header.dataset, pixel_format)
    filled = _without_gaps(stored, padding, pixel_format)
    distinct, low = _distinct_values(filled)
    values = modality_values(distinct, header)
    if low is not None and not _is_monotonic(values):  # else the extremes are at the ends, which pixels have
        values[_is_absent(stored, low, values.size)] = values[0]
    minimum, maximum = float(values.min()), float(values.max())
    if (mapped := voi_pixels(values, header, window)) is not None:
        grey, applied = mapped
        center, width = applied or _linear_window(minimum, maximum)
    else:
        darkest, brightest = _percentiles(values, stored, low, padding)
        center, width = _linear_window(darkest, brightest)
        grey = apply_window(values, darkest, brightest)
    pixels = _look_up(grey, stored, low)
    return np.ascontiguousarray(pixels), Windowing(center, width, minimum, maximum)


def frame_values(
    stored: Stored, header: FrameHeader, windowing: Windowing, window: Window | None = None
) -> ScaledValues:
    """Return the values of a grey frame in 16 bits: as stored where one slope and intercept hold for all.

    Parameters
    ----------
    stored : (rows, columns) array
        Stored values, one of them finite.
    header : FrameHeader
        Header of the frame.
    windowing : Windowing
        Window that the frame is displayed in.
    window : (float, float), optional
        Center and width that were asked for.
    """
    pixel_format = header.pixel_format
    stored = _without_gaps(stored, _padding_range(stored, header.dataset, pixel_format), pixel_format)
    distinct, low = _distinct_values(stored)
    values = modality_values(distinct, header)
    inverted = pixel_format.photometric == "MONOCHROME1"
    line = None if low is None else line_through(values)
    kind = None if low is None else smallest_type(low, low + len(values) - 1)
    if line and kind and low is not None:
        slope, first = line
        scaled = ScaledValues(stored.astype(kind), slope, first - slope * low)
    else:
        scaled = scale_values(values if low is None else values[stored.astype(np.intp) - low])
    shown = voi_pixels(values, header, window)
    linear = True
    if shown is not None:
        least = windowing.center - 0.5 - (windowing.width - 1) / 2
        in_window = apply_window(values, least, least + windowing.width - 1)
        linear = bool(np.abs(shown[0].astype(np.int16) - in_window).max() <= 1)
    return scaled._replace(unit=_unit(header), linear=linear, inverted=inverted)


def _unit(header: FrameHeader) -> str:
    """Return the unit of modality values: "HU" where the header says so, or CT values are rescaled without one."""
    for item in header.items("PixelValueTransformationSequence"):
        kind = first_text(item, "RescaleType").upper()
        if kind:
            return "HU" if kind == "HU" else ""
        if first_number(item, "RescaleIntercept") is not None:
            return "HU" if first_text(header.dataset, "Modality") == "CT" else ""
    return ""


def _percentiles(
    values: Values, stored: Stored, low: int | None, padding: tuple[float, float] | None
) -> Window:
    """Return the percentiles of the visible pixels, of all values if no pixel is visible."""
    if low is None:
        visible = _is_visible(stored, padding)
        return percentiles(values[visible] if visible.any() else values)
    counts = np.zeros(values.size, np.int64)
    for rows in row_blocks(*stored.shape):
        visible = _is_visible(stored[rows], padding)
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


def _distinct_values(stored: Stored) -> tuple[NDArray[np.generic], int | None]:
    """Return the values to map: all integers in range and the lowest of them, or the pixels themselves and None."""
    if stored.dtype.kind == "f":
        return stored, None
    low, high = int(stored.min()), int(stored.max())
    if high - low >= MAX_DISTINCT:
        return stored, None
    return np.arange(low, high + 1), low


def _is_monotonic(values: Values) -> bool:
    steps = np.diff(values)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _is_absent(stored: Stored, low: int, count: int) -> NDArray[np.bool_]:
    """Mask those of `count` successive values from `low` on that no pixel has."""
    absent = np.ones(count, np.bool_)
    for rows in row_blocks(*stored.shape):
        absent[stored[rows].astype(np.intp) - low] = False
    return absent


def _is_visible(stored: Stored, padding: tuple[float, float] | None) -> NDArray[np.bool_]:
    """Mask the finite stored values outside of the range of pixel padding."""
    if padding is None:
        return np.isfinite(stored)
    numbers = stored.astype(np.float64)
    return np.isfinite(numbers) & ((numbers < padding[0]) | (numbers > padding[1]))


def _without_gaps(stored: Stored, padding: tuple[float, float] | None, pixel_format: PixelFormat) -> Stored:
    """Return floats with padding and NaN as the darkest of the others, infinity as their extremes; integers as is."""
    if not pixel_format.floats:
        return stored
    visible = _is_visible(stored, padding)
    if not visible.any():
        visible = np.isfinite(stored)
    if not visible.any():
        raise UnreadableImage("has no pixel value that is finite; export it again")
    least, greatest = stored[visible].min(), stored[visible].max()
    darkest = greatest if pixel_format.photometric == "MONOCHROME1" else least
    filled = np.where(visible, stored, darkest)
    filled[stored == inf], filled[stored == -inf] = greatest, least
    return filled


def _padding_range(stored: Stored, dataset: Dataset, pixel_format: PixelFormat) -> tuple[float, float] | None:
    """Return the lowest and the highest stored value of pixel padding; None without padding.

    Attributes of integers may have the other sign than the pixels: they are words like these. Lossy compression
    scatters padding evenly on both sides. In a lossy file, values around it belong to it if their mean is close to it
    and a gap separates them from all others.
    """
    kind = next((kind for kind in FLOAT_PADDINGS if f"{kind}PixelPaddingValue" in dataset), "")
    padding = first_number(dataset, f"{kind}PixelPaddingValue")
    if padding is None:
        return None
    limit = first_number(dataset, f"{kind}PixelPaddingRangeLimit")
    low, high = sorted(map(pixel_format.stored_number, (padding, padding if limit is None else limit)))
    if pixel_format.floats or str(dataset.get("LossyImageCompression")) != "01":
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


def _apply_palette(stored: Stored, header: FrameHeader) -> Pixels:
    """Convert palette indices to RGB (C.7.9)."""
    dataset = header.dataset
    distinct, low = _distinct_values(stored)
    colours = "RedPaletteColorLookupTable", "GreenPaletteColorLookupTable", "BluePaletteColorLookupTable"
    try:
        if "RedPaletteColorLookupTableData" in dataset:
            tables = [
                lookup_table(dataset, header.little, header.signed, f"{name}Descriptor", f"{name}Data")
                for name in colours
            ]
            top = max(table.top for table in tables)
            rgb = np.stack([table(distinct) for table in tables], axis=-1)
        else:  # segmented
            rgb = apply_color_lut(distinct, dataset)[..., :3].astype(np.float64)
            top = 2.0 ** int(dataset[f"{colours[0]}Descriptor"].value[2]) - 1
    except MemoryError:
        raise
    except Exception:  # pydicom raises anything on damaged segments
        raise UnreadableImage("has a palette that is missing or damaged; export it as RGB") from None
    return _look_up(apply_window(rgb, 0, top), stored, low)


def _to_bytes(colour: Stored, top: float) -> Pixels:
    """Scale colours with maximum `top` to uint8."""
    if colour.dtype == np.uint8 and top >= 255:
        return colour.astype(np.uint8, copy=False)
    return apply_window(colour.astype(np.float64), 0, max(top, 1.0))


SECONDARY_CAPTURES = {
    uid.SecondaryCaptureImageStorage,
    uid.MultiFrameSingleBitSecondaryCaptureImageStorage,
    uid.MultiFrameGrayscaleByteSecondaryCaptureImageStorage,
    uid.MultiFrameGrayscaleWordSecondaryCaptureImageStorage,
    uid.MultiFrameTrueColorSecondaryCaptureImageStorage,
}


def decode_dicom(
    data: bytes,
    name: str,
    limits: Limits,
    window: Window | None = None,
    find_damage: bool = False,
    keep_values: bool = False,
) -> Iterator[Image]:
    """Decode the frames of a DICOM file one at a time.

    Parameters
    ----------
    data : bytes
        The file, with or without preamble.
    name : str
        Source of the images, for messages.
    limits : Limits
        Largest size that is decoded.
    window : (float, float), optional
        Center and width for grey frames, instead of those in the file.
    find_damage : bool
        Also look for damage that decoders conceal.
    keep_values : bool
        Keep the values of grey frames beside their pixels.

    Yields
    ------
    Image
        One image per frame, with pixels from `cbir.images.dicom_decoder.display_pixels`.

    Raises
    ------
    UnreadableImage
        If the file has no pixels that can be decoded, or exceeds the limits.
    """
    try:
        dataset = parse_dataset(data, limits)
        header, count = dicom_header(dataset), frame_count(dataset)
        pixel_format = read_pixel_format(dataset)
        for index, (stored, damaged) in enumerate(stored_frames(dataset, find_damage, pixel_format)):
            frame = FrameHeader(dataset, index, pixel_format)
            pixels, windowing = display_pixels(stored, frame, pixel_format, window)
            number, spacing = index + 1 if count > 1 else None, pixel_spacing(dataset, index)
            yield Image(
                pixels,
                name,
                "dicom",
                number,
                header,
                windowing,
                count,
                spacing,
                damaged,
                unusable=tuple(frame.unusable),
                location=read_slice_place(dataset, index),
                values=frame_values(stored, frame, windowing, window) if keep_values and windowing else None,
            )
    except (UnreadableImage, MemoryError):
        raise
    except Exception:  # decoders raise anything on damaged data, and their messages may quote patient data
        raise UnreadableImage("is a damaged DICOM file; copy or export it again") from None


def pixel_spacing(dataset: Dataset, index: int) -> tuple[float, float] | None:
    """Return the millimetres between rows and between columns of frame `index`; None where they are unknown.

    ImagerPixelSpacing, that of the detector, stands in for PixelSpacing (PS3.3, 10.7.1.3).
    """
    item = next(functional_groups(dataset, index, "PixelMeasuresSequence"), dataset)
    for keyword in ("PixelSpacing", "ImagerPixelSpacing"):
        try:
            rows, columns = (float(value) for value in item.get(keyword) or ())
        except (TypeError, ValueError):
            continue
        if 0 < rows < inf and 0 < columns < inf:
            return rows, columns
    return None


def dicom_header(dataset: Dataset) -> DicomHeader:
    """Return the fields of a data set that records and filters need; pixels are not looked at."""

    def text(keyword: str) -> str:
        return first_text(dataset, keyword)

    return DicomHeader(
        study=text("StudyInstanceUID"),
        series=text("SeriesInstanceUID"),
        instance=text("SOPInstanceUID"),
        modality=text("Modality"),
        body_part=text("BodyPartExamined"),
        view_position=view_position(dataset),
        laterality=laterality(dataset),
        burned_in=text("BurnedInAnnotation").upper() == "YES",
        patient_id=text("PatientID"),
        photometric=text("PhotometricInterpretation"),
        secondary_capture=text("SOPClassUID") in SECONDARY_CAPTURES,
        study_date=text("StudyDate"),
        sop_class=text("SOPClassUID"),
        age=patient_age(dataset),
        sex=patient_sex(dataset),
        series_description=series_description(dataset),
    )
