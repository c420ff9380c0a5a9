"""Damage of coded pixels that decoders conceal: they return pixels, and say nothing.

A JPEG decoder goes on after wrong bytes, and then data are left over or missing. Samples of lossless JPEG 2000 lie in
their range, those of damaged data often beyond it. Segments of RLE have as many bytes as pixels.
"""

import re

from pydicom import uid
from pydicom.uid import UID

from cbir.errors import UnreadableImage
from cbir.system.remedies import install_command

SIZ = b"\xff\x4f\xff\x51"  # SOC and SIZ: ISO/IEC 15444-1, A.4.1 and A.5.1
COMPONENTS = 40  # bytes from SOC to the number of components; depth and two factors of each follow
SIGNED, DEEPER = 0x80, 7  # bits of a sample that are added
COD, REVERSIBLE = b"\xff\x52", 13  # A.6.1; bytes from this marker to the transformation, 1 if nothing is lost
MOST_BITS = 24  # of a sample, that the decoder returns exactly
WARNINGS = ("Corrupt JPEG data", "Premature end of JPEG", "Inconsistent progression")  # of libjpeg: jerror.h
# Of headers alone: of the color profile, and of bytes before segments of applications and comments.
HARMLESS = re.compile(r"Corrupt JPEG data: (bad ICC|\d+ extraneous bytes before marker 0x(e.|fe))")
AT_END = re.compile(r"Corrupt JPEG data: (\d+) extraneous bytes before marker 0xd9")
EOI = b"\xff\xd9"
LOSSLESS_JPEG_2000 = uid.JPEG2000Lossless
RLE_OFFSETS, MAX_SEGMENTS = 64, 15  # bytes of the header, PS3.5, G.5
RLE_PADDING = b"\0\x80"  # zeros, and bytes that stand for no pixel
JPEG_8_BIT = uid.JPEGBaseline8Bit


def is_damaged_frame(coded: bytes, syntax: UID, pixels: int) -> bool:
    """Return whether a compressed DICOM frame is surely damaged, though it can be decoded.

    Parameters
    ----------
    coded : bytes
        The frame.
    syntax : UID
        Transfer syntax; only JPEG baseline, JPEG 2000 without loss and RLE are looked at.
    pixels : int
        Number of pixels of the frame.
    """
    if syntax == JPEG_8_BIT:
        return is_damaged_jpeg(coded)
    if syntax == LOSSLESS_JPEG_2000:
        return _has_impossible_samples(coded)
    return syntax == uid.RLELossless and not _fills_segments(coded, pixels)


def is_damaged_jpeg(data: bytes) -> bool:
    """Return whether libjpeg warns of damaged pixels. What it cannot decode at all, such as CMYK, is not damaged."""
    try:
        import simplejpeg  # of the extra `intake`, and only here: others conceal warnings
    except ModuleNotFoundError:
        raise UnreadableImage(f"cannot be checked for damage: {install_command('intake')}") from None
    data += EOI  # which may be missing where all pixels are there
    try:
        simplejpeg.decode_jpeg(data, "GRAY", strict=True)
    except ValueError as error:
        warning = str(error)
        return warning.startswith(WARNINGS) and not HARMLESS.match(warning) and not _is_padded(data, warning)
    return False


def _is_padded(data: bytes, warning: str) -> bool:
    """Return whether libjpeg warns of nothing but zeros at the end of the coded data."""
    match = AT_END.match(warning)
    return match is not None and bytes(int(match[1])) + EOI in data


def _has_impossible_samples(coded: bytes) -> bool:
    """Return whether samples of JPEG 2000 without loss exceed their range, as seen if a wider one is declared."""
    from openjpeg.utils import decode

    depths = _places_of_depths(coded)
    if not is_reversible(coded) or len({coded[depth] for depth in depths}) != 1:
        return False
    bits = (coded[depths[0]] & ~SIGNED) + 1
    if bits + DEEPER > MOST_BITS:
        return False
    wider = bytearray(coded)
    for depth in depths:
        wider[depth] += DEEPER
    try:
        samples = decode(bytes(wider))
    except RuntimeError:  # it has been decoded as it is
        return False
    least = 0 if coded[depths[0]] & SIGNED else 2 ** (bits + DEEPER - 1)  # the level shift, G.1.2
    half = 2 ** (bits - 1)
    return bool(int(samples.min()) < least - half or int(samples.max()) >= least + half)


def _places_of_depths(coded: bytes) -> range:
    """Return where JPEG 2000 data give the depth of each component; empty if they do not."""
    start = coded.find(SIZ)
    place = start + COMPONENTS
    count = int.from_bytes(coded[place : place + 2], "big")
    depths = range(place + 2, place + 2 + 3 * count, 3)
    return depths if start >= 0 and depths.stop <= len(coded) else range(0)


def is_reversible(coded: bytes) -> bool:
    """Return whether JPEG 2000 data say that they lose nothing; others may exceed their range."""
    place = coded.find(COD) + REVERSIBLE
    return coded[place : place + 1] == b"\x01"


def _fills_segments(coded: bytes, pixels: int) -> bool:
    """Return whether each RLE segment has exactly one byte a pixel, and nothing but padding behind (PS3.5, G.3.1)."""
    offsets = [int.from_bytes(coded[place : place + 4], "little") for place in range(0, RLE_OFFSETS, 4)]
    count = offsets[0]
    if not 1 <= count <= MAX_SEGMENTS:
        return False
    ends = [*offsets[2 : count + 1], len(coded)]
    return all(
        _fills_segment(coded[start:end], pixels)
        for start, end in zip(offsets[1 : count + 1], ends, strict=True)
    )


def _fills_segment(segment: bytes, pixels: int) -> bool:
    position = decoded = 0
    while decoded < pixels and position < len(segment):
        control = segment[position]
        literal = control < 128
        decoded += control + 1 if literal else 257 - control if control > 128 else 0
        position += control + 2 if literal else 2 if control > 128 else 1
    return decoded == pixels and position <= len(segment) and not segment[position:].strip(RLE_PADDING)
