"""Structure of JPEG and JPEG-LS streams, read as decoders read it, before anything is decoded."""

import re
from typing import NamedTuple

from cbir.errors import UnreadableImage

MAX_SCANS = 100  # each costs a pass over the whole image; common encoders write up to 10
MAX_SEGMENTS = 10_000
MAX_FILL_BYTES = 10_000  # between the segments of the header; Pillow reads them one by one

# ISO/IEC 10918-1, table B.1. TEM (FF01), RSTn (FFD0 to FFD7), fill bytes (FFFF) and stuffed zeros (FF00) have no
# length; FF02 to FFBF are reserved in headers, and data in the scans of JPEG-LS.
IN_HEADER = re.compile(rb"\xff([\x02-\xcf\xd8-\xfe])")
IN_SCAN = re.compile(rb"\xff([\xc0-\xcf\xd8-\xfe])")
SOI, EOI, SOS, LSE = 0xD8, 0xD9, 0xDA, 0xF8
APP0, APP14 = 0xE0, 0xEE
JFIF, ADOBE = b"JFIF\0", b"Adobe"
ADOBE_TRANSFORM = 13  # bytes of the segment before it
START_OF_FRAME = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}  # B.1.1.3; ISO/IEC 14495-1, C.1.1
LARGE_SIZE = 4  # type of an LSE segment with the size of the image: ISO/IEC 14495-1, C.2.4.1.4


class JpegFrame(NamedTuple):
    """Frame header of a JPEG stream (ISO/IEC 10918-1, B.2.2), and what its other segments say of colours.

    bits: of a sample. identifiers: of the components. jfif: whether there is a segment of JFIF. adobe: transform that
    Adobe's segment names, 0 for none and 1 for YCbCr; None without one (ISO/IEC 10918-6, 6.5.3).
    """

    width: int
    height: int
    channels: int
    bits: int
    identifiers: bytes = b""
    jfif: bool = False
    adobe: int | None = None

    @property
    def luma_and_chroma(self) -> bool | None:
        """True if three components are YCbCr, False if they are RGB, None if nothing says so."""
        if self.identifiers.upper() == b"RGB":
            return False
        if self.jfif:  # other colours than YCbCr are not allowed there
            return True
        return None if self.adobe is None else self.adobe == 1

    @property
    def pixel_bytes(self) -> int:
        """Channels times bytes per sample."""
        return self.channels * -(-self.bits // 8)


def read_jpeg_frame(data: bytes) -> JpegFrame:
    """Return the frame header of a JPEG or JPEG-LS stream after a walk through all its segments.

    Raises UnreadableImage for a stream without a frame header, with several of them, with reserved markers or with
    too many segments, fill bytes or scans.
    """
    frames: list[JpegFrame] = []
    jfif, adobe = False, None
    position, scans, segments, fill_bytes, pattern = 2, 0, 0, 0, IN_HEADER
    while (match := pattern.search(data, position)) is not None:
        marker, start = match[1][0], match.end()
        segments += 1
        if marker < 0xC0 or segments > MAX_SEGMENTS:
            raise UnreadableImage(
                "is damaged: its JPEG data have reserved or too many markers; export it again"
            )
        if pattern is IN_HEADER:
            fill_bytes += match.start() - position
            if fill_bytes > MAX_FILL_BYTES:
                raise UnreadableImage(f"has more than {MAX_FILL_BYTES} JPEG fill bytes; save it again")
        if marker == EOI:
            break
        position = start if marker == SOI else start + _segment_length(data, start)
        if marker in START_OF_FRAME:
            frames.append(_frame_header(data[start : start + 8 + 3 * 3]))
        elif marker == APP0:
            jfif = jfif or data.startswith(JFIF, start + 2)
        elif marker == APP14 and data[start + 2 : position].startswith(ADOBE):
            adobe = int.from_bytes(data[start + ADOBE_TRANSFORM : start + ADOBE_TRANSFORM + 1], "big")
        elif marker == LSE and data[start + 2 : start + 3] == bytes([LARGE_SIZE]):
            raise UnreadableImage("declares its size outside the JPEG-LS frame header; export it again")
        elif marker == SOS:
            pattern, scans = IN_SCAN, scans + 1
            if scans > MAX_SCANS:
                raise UnreadableImage(f"has more than {MAX_SCANS} JPEG scans; save it as a baseline JPEG")
    if len(frames) != 1:
        raise UnreadableImage(f"is damaged: a JPEG with {len(frames)} frame headers; export it again")
    return frames[0]._replace(jfif=jfif, adobe=adobe)


def _segment_length(data: bytes, start: int) -> int:
    length = int.from_bytes(data[start : start + 2], "big")
    if length < 2:
        raise UnreadableImage("is damaged: a JPEG segment has no length; export it again")
    return length


def _frame_header(segment: bytes) -> JpegFrame:
    if len(segment) < 8:
        raise UnreadableImage("is truncated; copy or export it again")
    height, width = int.from_bytes(segment[3:5], "big"), int.from_bytes(segment[5:7], "big")
    return JpegFrame(width, height, channels=segment[7], bits=segment[2], identifiers=segment[8::3])
