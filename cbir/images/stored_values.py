"""Stored values of DICOM pixels: which bits of a decoder's samples they are, and their sign (PS3.5, 8.1 and 8.2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset

from cbir.errors import UnreadableImage
from cbir.images.dicom_dataset import FLOAT_PIXELS, first_number

Stored = NDArray[np.generic]

GREY = ("MONOCHROME1", "MONOCHROME2", "PALETTE COLOR")
LUMA_AND_CHROMA = ("YBR_FULL", "YBR_FULL_422")
JPEG_2000_COLOURS = ("YBR_RCT", "YBR_ICT")  # the decoder converts them
SAMPLES = dict.fromkeys(GREY, 1) | dict.fromkeys(("RGB", *LUMA_AND_CHROMA, *JPEG_2000_COLOURS), 3)
MOST_BITS = 64


@dataclass(frozen=True)
class PixelFormat:
    """Attributes of the image pixel module (PS3.3, C.7.6.3), checked.

    rows, columns: of a frame. samples: of a pixel, 1 or 3. photometric: PhotometricInterpretation. allocated, stored:
    bits of a sample, and those that hold its value. high: number of the value's highest bit. signed: whether values
    are two's complement. planes: whether native colours are stored plane by plane. floats: values are no integers.
    """

    rows: int
    columns: int
    samples: int
    photometric: str
    allocated: int
    stored: int
    high: int
    signed: bool
    planes: bool = False
    floats: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a frame."""
        return (self.rows, self.columns) if self.samples == 1 else (self.rows, self.columns, self.samples)

    @property
    def extremes(self) -> tuple[float, float]:
        """Lowest and highest stored value that there can be."""
        if self.floats:
            return -inf, inf
        half = 2.0 ** (self.stored - 1)
        return (-half, half - 1) if self.signed else (0.0, 2 * half - 1)

    def stored_values(self, samples: Stored, precision: int, lossy: bool = False) -> Stored:
        """Return the values in a decoder's samples.

        Bits above and below the value are masked, and its sign is extended. Lossy coding goes a little beyond the
        range, in either direction: such values are clipped, where masking would turn white into black.

        Parameters
        ----------
        samples : integer array of any shape
            What the decoder returned: words of native and run-length coded pixels, samples of others.
        precision : int
            Bits of these samples: BitsAllocated, or what the compressed stream says.
        lossy : bool
            Whether the samples differ from those that were coded.
        """
        samples = samples.astype(samples.dtype.newbyteorder("="), copy=False)
        shift = (
            self.high + 1 - self.stored if precision > self.high else 0
        )  # else the coder has removed these bits
        bits = min(self.stored, precision - shift)
        kind = "i" if self.signed else "u"
        if lossy and precision > bits:
            clipped = self._clipped(samples, precision, shift, bits)
            if clipped is not None:
                return clipped
        width = 8 * samples.dtype.itemsize
        words: Stored = samples.view(f"{kind}{samples.dtype.itemsize}")
        if bits == width or (kind == "u" and not shift and not int(words.max()) >> bits):
            return words
        values: Any = np.left_shift(words, width - shift - bits)
        values >>= width - bits
        aligned: Stored = values
        return aligned

    def stored_number(self, number: float) -> float:
        """Return a number of the header, whose sign may be the other one, as a stored value."""
        least, most = self.extremes
        if least <= number <= most:
            return number
        return (int(number) - least) % (most - least + 1) + least

    def _clipped(self, samples: Stored, precision: int, shift: int, bits: int) -> Stored | None:
        """Return lossy values clipped to `bits`; None if they are so far outside that unused bits are in use."""
        size = samples.dtype.itemsize
        values: Any = samples
        if self.signed:
            unused = 8 * size - precision
            values = np.right_shift(np.left_shift(samples.view(f"i{size}"), unused), unused)
        values = np.right_shift(values, shift)
        half = 2 ** (bits - 1)
        least, most = (-half, half - 1) if self.signed else (0, 2 * half - 1)
        if int(values.min()) < least - half or int(values.max()) > most + half:
            return None
        clipped: Stored = np.clip(values, least, most)
        return clipped.astype(f"{'i' if self.signed else 'u'}{size}", copy=False)


def native_frames(content: bytes, pixel_format: PixelFormat, count: int, little: bool) -> Iterator[Stored]:
    """Yield the words or bits of uncompressed frames, which follow each other without gaps (PS3.5, 8.1.1).

    Parameters
    ----------
    content : bytes
        Pixel data.
    pixel_format : PixelFormat
        Their format.
    count : int
        Number of frames.
    little : bool
        Whether words are little endian.

    Raises
    ------
    ValueError
        If there are too few bytes, or as many as for colours that are not subsampled.
    """
    data, allocated = np.frombuffer(content, np.uint8), pixel_format.allocated
    is_subsampled = pixel_format.photometric == "YBR_FULL_422"
    samples = prod(pixel_format.shape)
    bits = allocated * (samples // 3 * 2 if is_subsampled else samples)
    if not bits * count <= 8 * data.size or (is_subsampled and 8 * data.size >= allocated * samples * count):
        raise ValueError("another number of bytes")
    kind = f"{'<' if little else '>'}{'f' if pixel_format.floats else 'u'}{allocated // 8}"
    for first in range(0, bits * count, bits):
        part = data[first // 8 : -(-(first + bits) // 8)]
        values: Stored
        if allocated == 1:
            values = np.unpackbits(part, bitorder="little")[first % 8 : first % 8 + bits]
        else:
            values = part.view(kind)
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
        if is_subsampled:
            values = _at_each_pixel(values)
        elif pixel_format.planes:
            planes = values.reshape(pixel_format.samples, pixel_format.rows, pixel_format.columns)
            values = np.moveaxis(planes, 0, -1)
        yield values.reshape(pixel_format.shape)


def _at_each_pixel(values: Stored) -> Stored:
    """Return luma and chroma of each pixel; each two have a chroma, behind their luma (PS3.3, C.7.6.3.1.2)."""
    pairs = values.reshape(-1, 4)
    pixels = np.empty((len(pairs), 2, 3), values.dtype)
    pixels[..., 0], pixels[..., 1:] = pairs[:, :2], pairs[:, np.newaxis, 2:]
    return pixels


def read_pixel_format(dataset: Dataset) -> PixelFormat:
    """Return the format of a data set's pixels.

    SamplesPerPixel follows from PhotometricInterpretation, and PlanarConfiguration is 0, where they are absent;
    a HighBit that cannot be is ignored. Raises UnreadableImage, which names the attribute, for all others.
    """
    photometric = _photometric(dataset)
    samples = _whole_number(dataset, "SamplesPerPixel", 1, 4, SAMPLES[photometric])
    if samples != SAMPLES[photometric]:
        raise UnreadableImage(f"has SamplesPerPixel {samples} with {photometric}; export it again")
    allocated = _whole_number(dataset, "BitsAllocated", 1, MOST_BITS)
    if allocated != 1 and (allocated % 8 or allocated not in (8, 16, 32, 64)):
        raise UnreadableImage(f"has BitsAllocated {allocated}; export it with 8 or 16")
    rows, columns = (_whole_number(dataset, keyword, 1, 2**16 - 1) for keyword in ("Rows", "Columns"))
    planes = samples == 3 and _whole_number(dataset, "PlanarConfiguration", 0, 1, 0) == 1
    if any(keyword in dataset for keyword in FLOAT_PIXELS):
        return PixelFormat(
            rows, columns, samples, photometric, allocated, allocated, allocated - 1, True, planes, True
        )
    stored = _whole_number(dataset, "BitsStored", 1, allocated, allocated if allocated <= 8 else None)
    high = first_number(dataset, "HighBit")
    if high is None or not stored - 1 <= high < allocated:
        high = stored - 1
    signed = _whole_number(dataset, "PixelRepresentation", 0, 1, 0 if allocated <= 8 else None) == 1
    return PixelFormat(rows, columns, samples, photometric, allocated, stored, int(high), signed, planes)


def _photometric(dataset: Dataset) -> str:
    """Return the PhotometricInterpretation; those that are refused may be text of any kind, and are not quoted."""
    value = str(dataset.get("PhotometricInterpretation") or "").strip()
    if not value:
        raise UnreadableImage("has no PhotometricInterpretation; export it again")
    if value not in SAMPLES:
        raise UnreadableImage(
            "has a PhotometricInterpretation that is not read; export it as MONOCHROME2 or RGB"
        )
    return value


def _whole_number(dataset: Dataset, keyword: str, low: int, high: int, default: int | None = None) -> int:
    """Return the value of an attribute from `low` to `high`; without a default, it must be there."""
    number = first_number(dataset, keyword)
    if number is None and default is not None and dataset.get(keyword) in (None, ""):
        return default
    if number is None:
        raise UnreadableImage(f"has no {keyword}; export it again")
    if not low <= number <= high or number != int(number):
        raise UnreadableImage(f"has {keyword} {number:g}, which cannot be; export it again")
    return int(number)
