"""Samples of compressed DICOM frames, as they were coded: nothing is converted, masked or signed here."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cbir.images.jpeg_markers import JpegFrame

Samples = NDArray[np.generic]

END_OF_IMAGE, START_OF_SCAN = b"\xff\xd9", b"\xff\xda"
RESET = 64  # of the counters of JPEG-LS, by default


def decode_jpeg_frame(coded: bytes, frame: JpegFrame) -> Samples:
    """Decode JPEG, with loss or without, from 2 to 16 bits, with libjpeg-turbo."""
    import imagecodecs  # only in these functions: few data sets need it

    colours = "YCBCR" if frame.channels == 3 else None  # of both: nothing is converted
    samples: Samples = imagecodecs.jpeg8_decode(coded, colorspace=colours, outcolorspace=colours)
    return samples


def decode_jpeg_ls(coded: bytes, frame: JpegFrame) -> Samples:
    """Decode JPEG-LS with CharLS, also what CharLS refuses of others' coders."""
    import imagecodecs

    decode: Callable[[bytes], Samples] = imagecodecs.jpegls_decode
    try:
        return decode(coded)
    except imagecodecs.JpeglsError:
        data, end, _ = coded.rpartition(END_OF_IMAGE)
        if data.endswith(b"\0"):  # padding before the end
            return decode(data.rstrip(b"\0") + end)
        if frame.bits >= 8 or not (error := _allowed_error(coded)):
            raise
        return decode(_with_early_thresholds(coded, frame.bits, error))


def decode_jpeg_2000(coded: bytes) -> Samples:
    """Decode JPEG 2000 of any kind with OpenJPEG, which also undoes its transforms of colours."""
    from openjpeg.utils import decode

    samples: Samples = decode(coded)
    return samples


def _allowed_error(coded: bytes) -> int:
    """Return NEAR, the largest error of a sample (ISO/IEC 14495-1, C.2.3)."""
    scan = coded.find(START_OF_SCAN)
    components = int.from_bytes(coded[scan + 4 : scan + 5], "big")
    return int.from_bytes(coded[scan + 5 + 2 * components : scan + 6 + 2 * components], "big")


def _with_early_thresholds(coded: bytes, bits: int, error: int) -> bytes:
    """Return a frame that names the thresholds of CharLS 1, which DCMTK uses, for samples of fewer than 8 bits.

    They are not the defaults of ISO/IEC 14495-1, C.2.4.1.1.1, and the coder does not write them down.
    """
    most = 2**bits - 1
    thresholds = [error + 1]
    for base in (2 + 3 * error, 3 + 5 * error, 4 + 7 * error):
        thresholds.append(base if thresholds[-1] <= base <= most else thresholds[-1])
    parameters = (most, *thresholds[1:], RESET)
    segment = b"\xff\xf8\0\x0d\1" + b"".join(value.to_bytes(2, "big") for value in parameters)
    scan = coded.find(START_OF_SCAN)
    return coded[:scan] + segment + coded[scan:]
