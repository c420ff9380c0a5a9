"""JPEG and BMP decoding with Pillow, PNG decoding (ISO/IEC 15948, third edition), and their orientation (EXIF)."""

import struct
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING
from zlib import crc32

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.errors import UnreadableImage
from cbir.images.bit_depth import Samples
from cbir.images.image import BLOCK_PIXELS, Limits, row_blocks
from cbir.images.jpeg_codecs import decode_without_end, read_jpeg_frame

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

TAG = 0x0112


def apply_orientation(samples: NDArray[np.generic], orientation: object) -> NDArray[np.generic]:
    """Rotate and mirror samples (height, width, ...) by orientation 1..8; leave them unchanged for other values."""
    if orientation not in (2, 3, 4, 5, 6, 7, 8):
        return samples
    if orientation in (3, 4, 6, 7):
        samples = samples[::-1]
    if orientation in (2, 3, 7, 8):
        samples = samples[:, ::-1]
    return samples.swapaxes(0, 1) if orientation in (5, 6, 7, 8) else samples


def decode_jpeg(data: bytes, limits: Limits) -> Samples:
    """Decode a JPEG file (ISO/IEC 10918-1) to (height, width) or RGB (height, width, 3), uint8, upright.

    `data` may be grey, YCbCr, RGB, CMYK or YCCK, sequential or progressive. Raises UnreadableImage beyond `limits`
    and for other depths than 8 bits, and Pillow's errors for damaged or truncated files. libjpeg conceals errors
    inside the coded data, silently under Pillow; under OpenCV it would write to stderr.
    """
    from PIL.JpegImagePlugin import JpegImageFile

    frame = read_jpeg_frame(data)
    limits.check_frame(frame.width, frame.height, frame.pixel_bytes)
    if frame.bits != 8:
        raise UnreadableImage(f"is a JPEG of {frame.bits} bits, which is not read; convert it to PNG")
    picture = JpegImageFile(BytesIO(data))
    limits.check_frame(*picture.size, 1)
    pixels = (
        _decoded(picture)
        if frame.is_ended
        else decode_without_end(data, frame, lambda stream: _decoded(JpegImageFile(BytesIO(stream))))
    )
    return apply_orientation(pixels, picture.getexif().get(TAG)) if "exif" in picture.info else pixels


def _decoded(picture: "PillowImage") -> Samples:
    """Return the samples of a picture in grey or RGB, in blocks: Pillow would hold a large one three times."""
    if picture.mode not in ("L", "RGB"):
        picture = picture.convert("RGB")
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


PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"

DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}  # by colour type, 11.2.1

CHANNELS = {0: 1, 2: 3, 3: 3, 4: 4, 6: 4}  # once decoded

GREY, RGB, PALETTE = 0, 2, 3

MAX_CHUNKS = 100_000

PIXEL_CHUNKS = (b"IHDR", b"PLTE", b"IDAT", b"IEND")  # libpng complains about some others

TEXT_CHUNKS = (b"tEXt", b"zTXt", b"iTXt")

XMP, RAW_PROFILE = (
    b"XML:com.adobe.xmp\0",
    b"Raw profile type ",
)  # keywords of texts that may have the orientation

NO_PIXELS = b"\0\0\0\0IDAT\x35\xaf\x06\x1e\0\0\0\0IEND\xae\x42\x60\x82"


def decode_png(data: bytes, limits: Limits) -> Samples:
    """Decode a PNG file to (height, width) or RGB(A) (height, width, 3 or 4), uint8 or uint16, upright.

    `data` is the file, of an animation the default image. Raises UnreadableImage for damage and beyond `limits`.
    """
    chunks = _chunks(data)
    if not chunks or chunks[0][0] != b"IHDR" or len(chunks[0][1]) != 25:
        raise UnreadableImage("is damaged in its PNG header; export it again")
    width, height, depth, colour = struct.unpack_from(">IIBB", chunks[0][1], 8)
    if depth not in DEPTHS.get(colour, ()):
        raise UnreadableImage("is damaged in its PNG header; export it again")
    limits.check_frame(width, height, CHANNELS[colour] * (2 if depth == 16 else 1))
    transparent = next((bytes(chunk[8:-4]) for kind, chunk in chunks if kind == b"tRNS"), None)
    described = [chunk for kind, chunk in chunks if _may_orient(kind, chunk)]
    pixel_chunks = (*PIXEL_CHUNKS, b"tRNS") if colour == PALETTE else PIXEL_CHUNKS
    file = data
    if any(kind not in pixel_chunks for kind, _ in chunks):
        file = b"".join([PNG_SIGNATURE, *(chunk for kind, chunk in chunks if kind in pixel_chunks)])
    picture = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_UNCHANGED)
    if picture is None or picture.shape[:2] != (height, width):
        raise UnreadableImage("is damaged in its PNG data; export it again")
    if picture.ndim == 3:
        conversion = cv2.COLOR_BGRA2RGBA if picture.shape[2] == 4 else cv2.COLOR_BGR2RGB
        for rows in row_blocks(height, width):
            picture[rows] = cv2.cvtColor(picture[rows], conversion)
    if colour in (GREY, RGB) and transparent is not None:
        _blacken(picture, transparent, depth)
    return apply_orientation(picture, _orientation([chunks[0][1], *described])) if described else picture


def _chunks(data: bytes) -> list[tuple[bytes, memoryview]]:
    """Split the file into chunks: kind and bytes (length, kind, content, checksum)."""
    view, position, chunks = memoryview(data), len(PNG_SIGNATURE), []
    while position + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        if end > len(data):
            break
        if crc32(view[position + 4 : end - 4]) != int.from_bytes(view[end - 4 : end], "big"):
            raise UnreadableImage("is damaged: a checksum of its PNG data is wrong; export it again")
        chunks.append((kind, view[position:end]))
        if kind == b"IEND":
            return chunks
        if len(chunks) == MAX_CHUNKS:
            raise UnreadableImage(f"has more than {MAX_CHUNKS} PNG chunks; save it again")
        position = end
    raise UnreadableImage("is truncated; copy or export it again")


def _blacken(picture: Samples, transparent: bytes, depth: int) -> None:
    """Set pixels of the transparent colour of a grey or RGB image to black (11.3.1.1)."""
    channels = 1 if picture.ndim == 2 else 3
    if len(transparent) != 2 * channels:
        raise UnreadableImage("is damaged in its PNG transparency; export it again")
    value = np.frombuffer(transparent, ">u2").astype(np.int64)
    if depth < 8:  # decoded levels are spread over 0..255
        value = value * 255 // (2**depth - 1)
    picture[(picture.reshape(*picture.shape[:2], channels) == value).all(axis=2)] = 0


def _may_orient(kind: bytes, chunk: memoryview) -> bool:
    """Return True for a chunk with EXIF or XMP, or a text with one of them, as ImageMagick writes it."""
    if kind not in TEXT_CHUNKS:
        return kind == b"eXIf"
    return bytes(chunk[8 : 8 + len(XMP)]).startswith((XMP, RAW_PROFILE))


def _orientation(chunks: Sequence[memoryview]) -> object:
    """Return the orientation in a PNG header and chunks that describe it; None without one or if damaged."""
    from PIL.Image import Image
    from PIL.PngImagePlugin import PngImageFile

    try:
        picture = PngImageFile(BytesIO(b"".join([PNG_SIGNATURE, *chunks, NO_PIXELS])))
        for name, key in (("exif", "exif"), ("APP1", "exif"), ("xmp", "xmp")):
            if key not in picture.info and (text := picture.info.get(f"Raw profile type {name}")):
                picture.info[key] = bytes.fromhex("".join(str(text).split("\n")[3:]))
        return Image.getexif(picture).get(TAG)  # not that of PngImageFile, which would decode pixels
    except MemoryError:
        raise
    except Exception:  # Pillow raises anything on damaged descriptions
        return None
