"""Decoded images, their values, and limits on their size: a small file can declare more pixels than fit in memory."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import UnreadableImage
from cbir.images.slice_order import SlicePlace

if TYPE_CHECKING:
    from cbir.settings import Settings


LEVELS = 2**16 - 1
SMALL: tuple[type[np.integer], ...] = (np.uint8, np.int16, np.uint16)
TOLERANCE = 1e-6  # of the range: values that far from a line are on it
_on_frame: ContextVar[Callable[[int], None] | None] = ContextVar("on_frame", default=None)
BLOCK_PIXELS = 2**20
Window = tuple[float, float]  # center and width, or lowest and highest value


class ScaledValues(NamedTuple):
    """Numbers (height, width) in uint8, int16 or uint16: a value is slope * number + intercept.

    unit: "HU", or "" for an unknown one. linear: whether a window shows them as the file is displayed; otherwise that
    is by a table or curve. inverted: low values are white.
    """

    numbers: NDArray[np.integer]
    slope: float = 1.0
    intercept: float = 0.0
    unit: str = ""
    linear: bool = True
    inverted: bool = False


def smallest_type(least: float, greatest: float) -> type[np.integer] | None:
    """Return the smallest type that holds whole numbers of this range, None if they need more than 16 bits."""
    for kind in SMALL:
        if np.iinfo(kind).min <= least and greatest <= np.iinfo(kind).max:
            return kind
    return None


def scale_values(values: NDArray[np.float64]) -> ScaledValues:
    """Return finite values of any size in 16 bits: exactly where they are whole numbers, else in 65,536 levels."""
    least, greatest = float(values.min()), float(values.max())
    kind = smallest_type(least, greatest)
    if kind and (values == np.rint(values)).all():
        return ScaledValues(values.astype(kind))
    slope = (greatest - least) / LEVELS
    if not 0 < slope < np.inf:
        return ScaledValues(np.zeros(values.shape, np.uint16), 1.0, least)
    return ScaledValues(np.rint((values - least) / slope).astype(np.uint16), slope, least)


def line_through(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return slope and first value of a line that values (n,) of successive whole numbers are on, None for none."""
    if len(values) == 1:
        return 1.0, float(values[0])
    slope = float(values[-1] - values[0]) / (len(values) - 1)
    apart = np.abs(values[0] + slope * np.arange(len(values)) - values).max()
    on_line = slope != 0 and apart <= TOLERANCE * abs(float(values[-1] - values[0]))
    return (float(f"{slope:.12g}"), float(values[0])) if on_line else None


@contextmanager
def watch_frames(on_frame: Callable[[int], None]) -> Iterator[None]:
    """Call `on_frame` with the size in bytes of each frame that a header declares within the limits."""
    before = _on_frame.set(on_frame)
    try:
        yield
    finally:
        _on_frame.reset(before)


@dataclass(frozen=True)
class Limits:
    """Largest image that is decoded; checked against headers before decompression.

    pixels: width x height of one frame. frame_bytes: width x height x channels x bytes per sample of one frame.
    bytes: size of one file. inflated_bytes: size of a deflated DICOM data set once inflated. frames: frames or pages
    of one file.
    """

    pixels: int = 100_000_000
    frame_bytes: int = 300_000_000
    bytes: int = 512 * 2**20
    inflated_bytes: int = 128 * 2**20
    frames: int = 10_000

    @staticmethod
    def from_settings(settings: "Settings") -> "Limits":
        """Return the limits of frames that the `settings` give; the others are the defaults."""
        return Limits(pixels=settings.max_pixels, frame_bytes=settings.max_frame_bytes)

    def check_bytes(self, size: int) -> None:
        """Raise UnreadableImage for an empty file or one of more than `bytes`."""
        if size < 1:
            raise UnreadableImage("is empty; copy or export it again")
        if size > self.bytes:
            raise UnreadableImage(f"has {size} bytes; at most {self.bytes} are read; make it smaller")

    def check_frame(self, width: int, height: int, pixel_bytes: int) -> None:
        """Raise UnreadableImage for a frame that declares no pixels, or more than `pixels` or `frame_bytes`.

        Parameters
        ----------
        width, height : int
            Size in pixels.
        pixel_bytes : int
            Channels times bytes per sample.
        """
        if width < 1 or height < 1:
            raise UnreadableImage(f"declares {width} x {height} pixels, an empty image; export it again")
        if width * height > self.pixels:
            raise UnreadableImage(
                f"declares {width} x {height} pixels; at most {self.pixels} are decoded (max_pixels)"
            )
        if width * height * pixel_bytes > self.frame_bytes:
            raise UnreadableImage(
                f"declares {width} x {height} pixels of {pixel_bytes} bytes; frames of at most "
                f"{self.frame_bytes} bytes are decoded (max_frame_bytes)"
            )
        if on_frame := _on_frame.get():
            on_frame(width * height * pixel_bytes)

    def check_frames(self, frames: int) -> None:
        """Raise UnreadableImage for a file that declares no frames or more than `frames`."""
        if frames < 1:
            raise UnreadableImage("declares no frames; export it again")
        if frames > self.frames:
            raise UnreadableImage(f"has {frames} frames; at most {self.frames} are read; split it")


def row_blocks(height: int, width: int) -> Iterator[slice]:
    """Yield slices of rows with some million pixels each: temporary arrays stay small beside a large image."""
    rows = max(1, BLOCK_PIXELS // max(width, 1))
    for start in range(0, height, rows):
        yield slice(start, start + rows)


@dataclass(frozen=True)
class DicomHeader:
    """Header fields of a DICOM data set (PS3.3), empty where absent.

    patient_id never leaves the process: it is hashed with the collection's key and then dropped. study_date is
    stored only on request, shifted. secondary_capture: a screen shot or scanned film (A.8), not a modality's image.
    age, sex, series_description: see `cbir.images.dicom_facts`.
    """

    study: str = ""
    series: str = ""
    instance: str = ""
    modality: str = ""
    body_part: str = ""
    view_position: str = ""
    laterality: str = ""
    burned_in: bool = False
    patient_id: str = field(default="", repr=False)
    photometric: str = ""
    secondary_capture: bool = False
    study_date: str = field(default="", repr=False)
    sop_class: str = ""
    age: str = field(default="", repr=False)
    sex: str = field(default="", repr=False)
    series_description: str = field(default="", repr=False)


class Windowing(NamedTuple):
    """Window that mapped a DICOM frame or a volume to pixels, in modality units (PS3.3, C.11.2.1.2).

    center, width: LINEAR window; the full range if a VOI LUT was applied. least, greatest: range of the frame.
    """

    center: float
    width: float
    least: float
    greatest: float


@dataclass(frozen=True, eq=False)
class Image:
    """Pixels of one frame, and their origin.

    pixels: uint8, C-contiguous, (height, width) grey or (height, width, 3) RGB; equal channels are reduced to grey.
    source: name of the file.
    format: "png", "jpeg", "tiff", "bmp", "dicom", "nifti" or "array".
    frame: number of the frame, page or slice, from 1; None for a file with a single one.
    dicom: of a NIfTI volume, UIDs alone, made from its content.
    windowing: only for grey DICOM frames and NIfTI volumes.
    frames: number of frames, pages or slices of the file.
    spacing: millimetres between rows and between columns, None where the file does not say.
    damaged: its coded data are damaged, as far as this was looked for, and the pixels are what could be decoded.
    unusable: attributes for display that the file has, but that could not be used, such as "VOI LUT".
    location: of a DICOM frame in its series.
    values: of a grey DICOM frame, a NIfTI slice or a grey image of 16 bits, where they were asked for.
    """

    pixels: NDArray[np.uint8]
    source: str = ""
    format: str = "array"
    frame: int | None = None
    dicom: DicomHeader | None = None
    windowing: Windowing | None = None
    frames: int = 1
    spacing: tuple[float, float] | None = None
    damaged: bool = False
    unusable: tuple[str, ...] = ()
    location: SlicePlace | None = None
    values: ScaledValues | None = None

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])

    @cached_property
    def grey(self) -> NDArray[np.uint8]:
        """Grey values, (height, width) uint8: (R + G + B) / 3 truncated for colour."""
        if self.pixels.ndim == 2:
            return self.pixels
        grey = np.empty(self.pixels.shape[:2], np.uint8)
        for rows in row_blocks(self.height, self.width):
            grey[rows] = self.pixels[rows].sum(axis=2, dtype=np.uint16) // 3
        return grey

    @cached_property
    def content_hash(self) -> str:
        """BLAKE2b hash of shape and pixels, 32 hexadecimal digits; independent of the file format."""
        digest = hashlib.blake2b(repr(self.pixels.shape).encode(), digest_size=16)
        digest.update(np.ascontiguousarray(self.pixels).data)
        return digest.hexdigest()
