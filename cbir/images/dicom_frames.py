"""Decompression of the frames of a DICOM data set to stored values."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from pydicom import uid
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate, parse_fragments
from pydicom.pixels.decoders.base import get_decoder
from pydicom.pixels.processing import convert_color_space
from pydicom.uid import UID

from cbir.errors import UnreadableImage
from cbir.images.coded_damage import EOI, MAX_SEGMENTS, RLE_OFFSETS, is_damaged_frame, is_reversible
from cbir.images.dicom_dataset import ITEM_TAGS, PIXELS, frame_count
from cbir.images.image import row_blocks
from cbir.images.jpeg_codecs import (
    BOXES,
    START,
    JpegFrame,
    decode_jpeg_2000,
    decode_jpeg_frame,
    decode_jpeg_ls,
    decode_without_end,
    read_jpeg_2000_size,
    read_jpeg_frame,
)
from cbir.images.stored_values import (
    JPEG_2000_COLOURS,
    LUMA_AND_CHROMA,
    PixelFormat,
    Stored,
    native_frames,
    read_pixel_format,
)

JPEG_LS = {*uid.JPEGLSTransferSyntaxes}
JPEGS = {uid.JPEGBaseline8Bit, uid.JPEGExtended12Bit, uid.JPEGLossless, uid.JPEGLosslessSV1}
JPEG_2000S = {uid.JPEG2000Lossless, uid.JPEG2000, uid.HTJ2K, uid.HTJ2KLossless, uid.HTJ2KLosslessRPCL}
LOSSY = {uid.JPEGBaseline8Bit, uid.JPEGExtended12Bit, uid.JPEGLSNearLossless, uid.JPEG2000, uid.HTJ2K}
NATIVE = {
    uid.ImplicitVRLittleEndian,
    uid.ExplicitVRLittleEndian,
    uid.ExplicitVRBigEndian,
    uid.DeflatedExplicitVRLittleEndian,
}
DECODED = {*NATIVE, *JPEG_LS, *JPEGS, *JPEG_2000S, uid.RLELossless}
MAX_COMPONENTS, MAX_TILES = 4, 4096  # of a JPEG or JPEG 2000 stream
RLE_FIRST = RLE_OFFSETS.to_bytes(4, "little")  # offset of the first segment


def stored_frames(
    dataset: Dataset, find_damage: bool = False, pixel_format: PixelFormat | None = None
) -> Iterator[tuple[Stored, bool]]:
    """Yield the frames of `dataset`, (rows, columns) or (rows, columns, 3), as stored, with YBR converted to RGB.

    Parameters
    ----------
    dataset : Dataset
        Data set with pixels.
    find_damage : bool
        Say of each frame whether it is damaged; False otherwise.
    pixel_format : PixelFormat, optional
        Format of the pixels, if it has been read.

    Raises
    ------
    UnreadableImage
        At once if the transfer syntax or the format of the pixels cannot be decoded, at the frame if its pixel data
        are damaged, too short or of another size than Rows and Columns.
    """
    syntax = UID(dataset.file_meta.TransferSyntaxUID)
    _check_syntax(syntax)
    pixel_format = pixel_format or read_pixel_format(dataset)
    if pixel_format.photometric in JPEG_2000_COLOURS and syntax not in JPEG_2000S:
        raise UnreadableImage(
            f"has colours as {pixel_format.photometric} without JPEG 2000; export it as RGB"
        )
    if syntax in NATIVE:
        return ((stored, False) for stored in _native(dataset, syntax, pixel_format))
    return _decoded(dataset, syntax, pixel_format, find_damage)


def _check_syntax(syntax: UID) -> None:
    if syntax in DECODED:
        return
    if syntax in uid.MPEGTransferSyntaxes:
        raise UnreadableImage(f"is a video ({syntax.name}); export its frames as images")
    name = syntax.name if syntax.name != syntax else re.sub(r"[^0-9.]", "?", syntax)[:64]
    raise UnreadableImage(f"has pixels in an unsupported transfer syntax, {name}; convert it")


def _native(dataset: Dataset, syntax: UID, pixel_format: PixelFormat) -> Iterator[Stored]:
    luma_and_chroma = pixel_format.photometric in LUMA_AND_CHROMA
    content = b""
    try:
        content = _pixel_bytes(dataset, syntax, pixel_format)
        for values in native_frames(content, pixel_format, frame_count(dataset), syntax.is_little_endian):
            stored = values
            if not pixel_format.floats:
                stored = pixel_format.stored_values(values, pixel_format.allocated)
            yield _as_rgb(stored, pixel_format.stored) if luma_and_chroma else stored
    except (UnreadableImage, MemoryError):
        raise
    except Exception:  # of values that are no bytes, too
        raise UnreadableImage(
            f"has pixel data that are truncated or do not fit its header ({len(content)} bytes); "
            "copy or export it again"
        ) from None


def _pixel_bytes(dataset: Dataset, syntax: UID, pixel_format: PixelFormat) -> bytes:
    """Return native pixel data; samples of one byte, if they are stored as big-endian words, in their order."""
    (keyword,) = (keyword for keyword in PIXELS if keyword in dataset)
    content: bytes = dataset[keyword].value or b""
    if dataset[keyword].is_undefined_length and content.startswith(ITEM_TAGS):
        raise UnreadableImage("has compressed pixels in an uncompressed transfer syntax; export it again")
    if syntax == uid.ExplicitVRBigEndian and pixel_format.allocated == 8 and dataset[keyword].VR == "OW":
        return np.frombuffer(content, np.uint16).byteswap().tobytes()
    return content


def _decoder_options(pixel_format: PixelFormat) -> dict[str, Any]:
    """Return options of pydicom's decoders: what absent attributes mean, and to leave samples as they are."""
    options: dict[str, Any] = {
        "samples_per_pixel": pixel_format.samples,
        "planar_configuration": int(pixel_format.planes),
        "photometric_interpretation": pixel_format.photometric,
        "correct_unused_bits": False,
    }
    if not pixel_format.floats:
        # Words: their bits and signs are looked at once, after every decoder.
        options |= {"bits_stored": pixel_format.allocated, "pixel_representation": 0}
    return options


def _decoded(
    dataset: Dataset, syntax: UID, pixel_format: PixelFormat, find_damage: bool
) -> Iterator[tuple[Stored, bool]]:
    count, pixels = frame_count(dataset), pixel_format.rows * pixel_format.columns
    try:
        for coded in _coded_frames(dataset, count, syntax):
            yield (
                _decode_frame(coded, syntax, pixel_format),
                find_damage and is_damaged_frame(coded, syntax, pixels),
            )
    except (UnreadableImage, MemoryError):
        raise
    except Exception:  # the decoder's message may quote the header
        raise UnreadableImage(
            f"has pixel data, in {syntax.name}, that are damaged or unsupported; store it uncompressed"
        ) from None


def _coded_frames(dataset: Dataset, count: int, syntax: UID) -> Iterator[bytes]:
    """Yield the compressed frames, whose fragments follow each other (PS3.5, A.4)."""
    data = memoryview(dataset.PixelData)
    positions = parse_fragments(dataset.PixelData)[1]
    basic, *fragments = (
        data[position + 8 : position + 8 + int.from_bytes(data[position + 4 : position + 8], "little")]
        for position in positions
    )
    most = len(fragments)
    tables = (
        _table(dataset.get("ExtendedOffsetTable"), "<u8", most),
        sorted(_table(bytes(basic), "<u4", most)),
    )
    lengths = _table(dataset.get("ExtendedOffsetTableLengths"), "<u8", most)
    numbers = {position - positions[1]: number for number, position in enumerate(positions[1:])}
    by_table = [[numbers.get(offset, -1) for offset in offsets] for offsets in tables]
    starts = _frame_starts(fragments, by_table, count, syntax)
    has_lengths = starts == by_table[0] and len(lengths) >= count
    ends = dict(pairwise([*sorted(starts), most]))
    for index, start in enumerate(starts[:count]):
        yield _join(fragments[start : ends[start]], lengths[index] if has_lengths else 0)


def _frame_starts(
    fragments: Sequence[memoryview], by_table: Sequence[list[int]], count: int, syntax: UID
) -> Sequence[int]:
    """Return the fragment that each frame starts with: as a table says, or else as their first bytes show.

    A table is right if a frame begins at each of its offsets. by_table: fragments at these, the best table first.
    """
    beginnings = [number for number, each in enumerate(fragments) if _begins_frame(bytes(each[:12]), syntax)]
    for starts in by_table:
        if len(set(starts)) == len(starts) >= count and set(starts) <= set(beginnings):
            return starts
    filled = [number for number, each in enumerate(fragments) if len(each)]
    for starts in (list(range(len(fragments))), filled):
        if len(starts) == count:
            return starts
    if len(beginnings) >= count:
        return beginnings
    if count == 1 and fragments:
        return [0]
    raise UnreadableImage(
        f"has {len(fragments)} fragments of compressed pixels for {count} frames, and no table of where these begin; "
        "store it uncompressed"
    )


def _join(fragments: Sequence[memoryview], length: int) -> bytes:
    """Return the frame in fragments without those behind its `length` in bytes; 0 if it is not known."""
    sizes = list(accumulate(map(len, fragments)))
    return b"".join(fragments[: bisect_left(sizes, length) + 1] if length else fragments)


def _table(content: Any, kind: str, most: int) -> list[int]:
    """Return the numbers of an offset table; none if there is no table of whole numbers, at most `most`."""
    size = np.dtype(kind).itemsize
    is_table = isinstance(content, bytes) and len(content) % size == 0 and len(content) <= most * size
    return [int(number) for number in np.frombuffer(content, kind)] if is_table else []


def _begins_frame(start: bytes, syntax: UID) -> bool:
    """Return whether a fragment that starts with these bytes begins a frame."""
    if syntax == uid.RLELossless:
        return 1 <= int.from_bytes(start[:4], "little") <= MAX_SEGMENTS and start[4:8] == RLE_FIRST
    return start.startswith((START, BOXES) if syntax in JPEG_2000S else b"\xff\xd8\xff")


def _decode_frame(coded: bytes, syntax: UID, pixel_format: PixelFormat) -> Stored:
    luma_and_chroma: bool | None = pixel_format.photometric in LUMA_AND_CHROMA
    lossy = syntax in LOSSY
    if syntax in JPEG_2000S:
        size = read_jpeg_2000_size(coded)
        _check_size(size.width, size.height, size.components, size.tiles, pixel_format)
        samples, precision = decode_jpeg_2000(coded), size.bits
        lossy = lossy and not is_reversible(coded)
    elif syntax in JPEGS or syntax in JPEG_LS:
        frame = read_jpeg_frame(coded)
        _check_size(frame.width, frame.height, frame.channels, 1, pixel_format)
        samples = _decode_jpeg(coded, frame, syntax)
        precision = frame.bits
        if pixel_format.samples == 3 and frame.luma_and_chroma is not None:
            luma_and_chroma = frame.luma_and_chroma
    else:
        samples, precision = _decode_run_lengths(coded, pixel_format), pixel_format.allocated
    if samples.shape != pixel_format.shape:
        raise UnreadableImage("has a compressed frame of another shape than its header says; export it again")
    stored = pixel_format.stored_values(samples, precision, lossy)
    return _as_rgb(stored, min(precision, pixel_format.stored)) if luma_and_chroma else stored


def _decode_jpeg(coded: bytes, frame: JpegFrame, syntax: UID) -> Stored:
    if syntax in JPEG_LS:  # whose decoder refuses streams with less than all pixels
        return decode_jpeg_ls(coded if frame.is_ended else coded + EOI, frame)
    if frame.is_ended:
        return decode_jpeg_frame(coded, frame)
    return decode_without_end(coded, frame, lambda stream: decode_jpeg_frame(stream, frame))


def _decode_run_lengths(coded: bytes, pixel_format: PixelFormat) -> Stored:
    """Decode a frame of RLE with pydicom, which stops at the size of the frame."""
    options = {
        **_decoder_options(pixel_format),
        "rows": pixel_format.rows,
        "columns": pixel_format.columns,
        "bits_allocated": pixel_format.allocated,
        "number_of_frames": 1,
        "pixel_keyword": "PixelData",
    }
    decoder = get_decoder(uid.RLELossless)
    samples: Stored
    samples, _ = decoder.as_array(
        encapsulate([coded]), index=0, raw=True, decoding_plugin="pydicom", **options
    )
    return samples


def _as_rgb(stored: Stored, bits: int) -> Stored:
    """Convert luma and chroma of so many bits to RGB (PS3.3, C.7.6.3.1.2)."""
    if bits == 8:
        return np.asarray(convert_color_space(stored, "YBR_FULL", "RGB"))
    most, rgb = 2.0**bits - 1, np.empty_like(stored)
    for rows in row_blocks(*stored.shape[:2]):
        luma, blue, red = np.moveaxis(stored[rows].astype(np.float64), -1, 0)
        blue, red = 1.772 * (blue - 2 ** (bits - 1)), 1.402 * (red - 2 ** (bits - 1))
        green = luma - 0.114 / 0.587 * blue - 0.299 / 0.587 * red
        rgb[rows] = np.rint(np.clip(np.stack([luma + red, green, luma + blue], -1), 0, most))
    return rgb


def _check_size(width: int, height: int, components: int, tiles: int, pixel_format: PixelFormat) -> None:
    """Refuse a frame whose size differs from the data set's: it may be far larger."""
    expected = pixel_format.columns, pixel_format.rows
    if (width, height) != expected:
        raise UnreadableImage(
            f"has a compressed frame of {width} x {height} pixels where its header says "
            f"{expected[0]} x {expected[1]}; export it again"
        )
    if components > MAX_COMPONENTS or tiles > MAX_TILES:
        raise UnreadableImage(
            f"has a compressed frame of {components} components and {tiles} tiles; export it as RGB, untiled"
        )
    if components != pixel_format.samples:
        raise UnreadableImage(
            f"has a compressed frame of {components} components where its header says {pixel_format.samples} "
            "(SamplesPerPixel); export it again"
        )
