"""JPEG and BMP decoding with Pillow."""

from io import BytesIO

import numpy as np

from cbir.images.bit_depth import Samples
from cbir.images.limits import Limits
from cbir.images.orientation import TAG, apply_orientation


def decode_jpeg(data: bytes, limits: Limits) -> Samples:
    """Decode a JPEG file (ISO/IEC 10918-1) to (height, width) or RGB (height, width, 3), uint8, upright.

    `data` may be grey, YCbCr, RGB, CMYK or YCCK, sequential or progressive. Raises UnreadableImage beyond `limits`,
    and Pillow's errors for damaged or truncated files. libjpeg conceals errors inside the coded data, silently under
    Pillow; under OpenCV it would write to stderr.
    """
    from PIL.JpegImagePlugin import JpegImageFile

    picture = JpegImageFile(BytesIO(data))
    limits.check_pixels(*picture.size)
    pixels = np.asarray(picture if picture.mode in ("L", "RGB") else picture.convert("RGB"))
    return apply_orientation(pixels, picture.getexif().get(TAG)) if "exif" in picture.info else pixels


def decode_bmp(data: bytes, limits: Limits) -> Samples:
    """Decode a BMP file to (height, width) bool or uint8, or RGB(A) (height, width, 3 or 4) uint8.

    `data` is the file. Raises UnreadableImage beyond `limits`, and Pillow's errors for damage.
    """
    from PIL.BmpImagePlugin import BmpImageFile

    picture = BmpImageFile(BytesIO(data))
    limits.check_pixels(*picture.size)
    return np.asarray(picture.convert("RGB") if picture.mode == "P" else picture)
