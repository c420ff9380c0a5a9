"""JPEG and BMP decoding with Pillow."""

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from cbir.images.bit_depth import Samples
from cbir.images.image import BLOCK_PIXELS, row_blocks
from cbir.images.jpeg_markers import read_jpeg_frame
from cbir.images.limits import Limits
from cbir.images.orientation import TAG, apply_orientation

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage


def decode_jpeg(data: bytes, limits: Limits) -> Samples:
    """Decode a JPEG file (ISO/IEC 10918-1) to (height, width) or RGB (height, width, 3), uint8, upright.

    `data` may be grey, YCbCr, RGB, CMYK or YCCK, sequential or progressive. Raises UnreadableImage beyond `limits`,
    and Pillow's errors for damaged or truncated files. libjpeg conceals errors inside the coded data, silently under
    Pillow; under OpenCV it would write to stderr.
    """
    from PIL.JpegImagePlugin import JpegImageFile

    frame = read_jpeg_frame(data)
    limits.check_frame(frame.width, frame.height, frame.pixel_bytes)
    picture = JpegImageFile(BytesIO(data))
    limits.check_frame(*picture.size, 1)
    pixels = _samples(picture if picture.mode in ("L", "RGB") else picture.convert("RGB"))
    return apply_orientation(pixels, picture.getexif().get(TAG)) if "exif" in picture.info else pixels


def _samples(picture: "PillowImage") -> Samples:
    """Copy the samples of a grey or RGB picture, in blocks: Pillow would hold a large one three times."""
    width, height = picture.size
    if width * height <= BLOCK_PIXELS:
        return np.asarray(picture)
    pixels = np.empty((height, width, 3) if picture.mode == "RGB" else (height, width), np.uint8)
    for rows in row_blocks(height, width):
        pixels[rows] = np.asarray(picture.crop((0, rows.start, width, min(rows.stop, height))))
    return pixels


def decode_bmp(data: bytes, limits: Limits) -> Samples:
    """Decode a BMP file to (height, width) bool or uint8, or RGB(A) (height, width, 3 or 4) uint8.

    `data` is the file. Raises UnreadableImage beyond `limits`, and Pillow's errors for damage.
    """
    from PIL.BmpImagePlugin import BmpImageFile

    picture = BmpImageFile(BytesIO(data))
    limits.check_frame(*picture.size, 3 if picture.mode == "P" else len(picture.getbands()))
    return np.asarray(picture.convert("RGB") if picture.mode == "P" else picture)
