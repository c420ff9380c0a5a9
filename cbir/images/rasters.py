"""JPEG and BMP, decoded by Pillow."""

from io import BytesIO

import numpy as np

from cbir.images.bit_depth import Samples
from cbir.images.limits import Limits
from cbir.images.orientation import TAG, apply_orientation


def decode_jpeg(data: bytes, limits: Limits) -> Samples:
    """The pixels of a JPEG file (ISO/IEC 10918-1): (height, width) or (height, width, 3) RGB, uint8, upright.

    Grey, YCbCr, RGB, CMYK and YCCK, sequential and progressive. Raises UnreadableImage beyond the limits, and what
    Pillow raises for damage, a file without its end included. libjpeg itself mends errors inside the coded data,
    silently under Pillow; under OpenCV it writes to stderr.
    """
    from PIL.JpegImagePlugin import JpegImageFile

    picture = JpegImageFile(BytesIO(data))
    limits.check_pixels(*picture.size)
    pixels = np.asarray(picture if picture.mode in ("L", "RGB") else picture.convert("RGB"))
    return apply_orientation(pixels, picture.getexif().get(TAG)) if "exif" in picture.info else pixels


def decode_bmp(data: bytes, limits: Limits) -> Samples:
    """The pixels of a BMP file: (height, width) bool or uint8, or (height, width, 3 or 4) uint8 RGB and alpha.

    Raises UnreadableImage beyond the limits, and what Pillow raises for damage.
    """
    from PIL.BmpImagePlugin import BmpImageFile

    picture = BmpImageFile(BytesIO(data))
    limits.check_pixels(*picture.size)
    return np.asarray(picture.convert("RGB") if picture.mode == "P" else picture)
