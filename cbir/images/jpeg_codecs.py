"""Structure of JPEG, JPEG-LS and JPEG 2000 streams, read as decoders read it, and their samples as coded."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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

PROGRESSIVE = (0xC2, 0xC6, 0xCA, 0xCE)

COEFFICIENTS, MOST_IN_SCAN = 64, 4  # of a component; components

START_OF_FRAME = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}  # B.1.1.3; ISO/IEC 14495-1, C.1.1

LARGE_SIZE = 4  # type of an LSE segment with the size of the image: ISO/IEC 14495-1, C.2.4.1.4


class JpegFrame(NamedTuple):
    """Frame header of a JPEG stream (ISO/IEC 10918-1, B.2.2), and what its other segments say of colours.

    bits: of a sample. identifiers: of the components. jfif: whether there is a segment of JFIF. adobe: transform that
    Adobe's segment names, 0 for none and 1 for YCbCr; None without one (ISO/IEC 10918-6, 6.5.3). is_ended: whether
    there is an end marker. has_all_scans: whether the headers of the scans name all coefficients, and data follow.
    """

    width: int
    height: int
    channels: int
    bits: int
    identifiers: bytes = b""
    jfif: bool = False
    adobe: int | None = None
    is_ended: bool = True
    has_all_scans: bool = True

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
    scans: list[bytes] = []
    jfif, adobe, is_progressive, marker = False, None, False, 0
    position, segments, fill_bytes, pattern = 2, 0, 0, IN_HEADER
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
            is_progressive = marker in PROGRESSIVE
        elif marker == APP0:
            jfif = jfif or data.startswith(JFIF, start + 2)
        elif marker == APP14 and data[start + 2 : position].startswith(ADOBE):
            adobe = int.from_bytes(data[start + ADOBE_TRANSFORM : start + ADOBE_TRANSFORM + 1], "big")
        elif marker == LSE and data[start + 2 : start + 3] == bytes([LARGE_SIZE]):
            raise UnreadableImage("declares its size outside the JPEG-LS frame header; export it again")
        elif marker == SOS:
            pattern = IN_SCAN
            scans.append(data[start:position])
            if len(scans) > MAX_SCANS:
                raise UnreadableImage(f"has more than {MAX_SCANS} JPEG scans; save it as a baseline JPEG")
    if len(frames) != 1:
        raise UnreadableImage(f"is damaged: a JPEG with {len(frames)} frame headers; export it again")
    is_ended = marker == EOI or data.rfind(END_OF_IMAGE) > data.rfind(START_OF_SCAN)  # behind damage
    has_all_scans = is_ended or (
        marker == SOS and position < len(data) and _name_all(scans, frames[0].channels, is_progressive)
    )
    return frames[0]._replace(jfif=jfif, adobe=adobe, is_ended=is_ended, has_all_scans=has_all_scans)


def _name_all(scans: Sequence[bytes], channels: int, is_progressive: bool) -> bool:
    """Return whether headers of scans (B.2.3) name all components; and all coefficients to their last bit."""
    covered: set[tuple[int, int]] = set()
    for scan in scans:
        count = scan[2] if len(scan) > 2 else 0
        if not 1 <= count <= MOST_IN_SCAN or len(scan) < 6 + 2 * count:
            return False
        first, last, bits = scan[3 + 2 * count : 6 + 2 * count]
        coefficients = range(first, min(last + 1, COEFFICIENTS)) if is_progressive else range(1)
        if not is_progressive or bits & 0x0F == 0:
            covered.update(product(scan[3 : 3 + 2 * count : 2], coefficients))
    return len(covered) == channels * (COEFFICIENTS if is_progressive else 1)


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


START = b"\xff\x4f\xff\x51"  # SOC, and SIZ, which must follow it: ISO/IEC 15444-1, A.4.1 and A.5.1

BOXES = b"\0\0\0\x0cjP  \r\n\x87\n"  # I.5.1

MAX_BOXES = 1000


class Jpeg2000Size(NamedTuple):
    """Size in pixels, number of components and of tiles, and bits of the deepest component."""

    width: int
    height: int
    components: int
    tiles: int
    bits: int


def read_jpeg_2000_size(data: bytes) -> Jpeg2000Size:
    """Return the size of a codestream, raw or in a JP2 file.

    Raises UnreadableImage without a codestream, or if the file's header contradicts it.
    """
    start, declared = (0, None) if data.startswith(START) else _find_codestream(data)
    if data[start : start + 4] != START or len(data) < start + 43:
        raise UnreadableImage("is damaged: it has no JPEG 2000 codestream; export it again")
    right, bottom, left, top, tile_width, tile_height, tile_left, tile_top = (
        int.from_bytes(data[place : place + 4], "big") for place in range(start + 8, start + 40, 4)
    )
    tiles = -(-(right - tile_left) // max(tile_width, 1)) * -(-(bottom - tile_top) // max(tile_height, 1))
    components = max(int.from_bytes(data[start + 40 : start + 42], "big"), 1)
    depths = data[start + 42 : start + 42 + 3 * components : 3]  # less 1, and their sign in the upper bit
    bits = max(depth & 0x7F for depth in depths) + 1
    size = Jpeg2000Size(right - left, bottom - top, components, tiles, bits)
    if declared not in (None, size[:2]):
        raise UnreadableImage("is damaged: its JP2 header and its codestream differ in size; export it again")
    return size


def _find_codestream(data: bytes) -> tuple[int, tuple[int, int] | None]:
    """Return the start of the codestream in a JP2 file, and the size in the file's image header (I.5.3.1)."""
    position, declared = 0, None
    for _ in range(MAX_BOXES if data.startswith(BOXES) else 0):
        length, kind = int.from_bytes(data[position : position + 4], "big"), data[position + 4 : position + 8]
        content = position + 8
        if length == 1:  # I.4: the length is in the next 8 bytes
            length, content = int.from_bytes(data[content : content + 8], "big"), content + 8
        if kind == b"jp2c":
            return content, declared
        if kind == b"ihdr":
            height, width = data[content : content + 4], data[content + 4 : content + 8]
            declared = int.from_bytes(width, "big"), int.from_bytes(height, "big")
        if length < content - position:
            break
        position = content if kind == b"jp2h" else position + length  # boxes inside follow
    raise UnreadableImage("is damaged: it has no JPEG 2000 codestream; export it again")


Samples = NDArray[np.generic]

END_OF_IMAGE, START_OF_SCAN = b"\xff\xd9", b"\xff\xda"

RESET = 64  # of the counters of JPEG-LS, by default


FILLERS = bytes(64), 64 * b"\xaa", 64 * b"\xfe"  # bits that no scan goes on with alike, and no marker

Decode = Callable[[bytes], Samples]


def decode_without_end(coded: bytes, frame: JpegFrame, decode: Decode) -> Samples:
    """Decode `coded`, the stream of a `frame` without an end marker, with `decode` if nothing else is missing.

    Pixels that are missing would come from what follows. Raises UnreadableImage if they do.
    """
    stream = coded.rstrip(b"\0")  # padding, or the rest of a file that was not written
    if stream.endswith(b"\xff") and len(stream) < len(coded):
        stream += b"\0"  # of the byte 255
    stream = stream.rstrip(b"\xff")  # which may be half of the marker
    if frame.has_all_scans:
        samples, *others = (decode(stream + filler + END_OF_IMAGE) for filler in FILLERS)
        if all(np.array_equal(samples, other) for other in others):
            return samples
    raise UnreadableImage("is truncated; copy or export it again")


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
    except imagecodecs.JpeglsError as error:
        for repaired in _repaired_frames(coded, frame.bits):
            with suppress(imagecodecs.JpeglsError):
                return decode(repaired)
        raise error


def _repaired_frames(coded: bytes, bits: int) -> Iterator[bytes]:
    """Yield a frame of JPEG-LS that CharLS refuses without its padding, with other thresholds, and with both."""
    data, end, _ = coded.rpartition(END_OF_IMAGE)
    frames = [coded]
    if data.endswith(b"\0"):  # padding before the end, or the last bits of the image
        frames.append(data.rstrip(b"\0") + end)
        yield frames[1]
    if bits < 8 and (error := _allowed_error(coded)):
        yield from (_with_early_thresholds(each, bits, error) for each in frames)


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
