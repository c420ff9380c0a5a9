"""Decompression of the frames of a DICOM data set to stored values."""

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from pydicom import uid
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate, generate_frames
from pydicom.pixels.decoders.base import Decoder, get_decoder
from pydicom.pixels.utils import as_pixel_options
from pydicom.uid import UID

from cbir.errors import UnreadableImage
from cbir.images.coded_damage import EOI, is_damaged_frame
from cbir.images.dicom_dataset import frame_count, integer
from cbir.images.imagecodecs_plugin import LABEL, register_plugin
from cbir.images.jpeg_2000_header import read_jpeg_2000_size
from cbir.images.jpeg_markers import read_jpeg_frame

Stored = NDArray[np.generic]

JPEGS = {*uid.JPEGTransferSyntaxes, *uid.JPEGLSTransferSyntaxes}
JPEG_2000S = {*uid.JPEG2000TransferSyntaxes, uid.HTJ2K, uid.HTJ2KLossless, uid.HTJ2KLosslessRPCL}
MAX_COMPONENTS, MAX_TILES = 4, 4096  # of a JPEG or JPEG 2000 stream
SOS = b"\xff\xda"  # start of a scan, which cannot contain it

register_plugin()


def stored_frames(dataset: Dataset, find_damage: bool = False) -> Iterator[tuple[Stored, bool]]:
    """Yield the frames of `dataset`, (rows, columns) or (rows, columns, 3), as stored, with YBR converted to RGB.

    With each comes whether it is damaged, if `find_damage` asks for it. Raises UnreadableImage: at once if the
    transfer syntax cannot be decoded, at the frame if its pixel data are damaged, too short or of another size than
    Rows and Columns.
    """
    syntax = UID(dataset.file_meta.TransferSyntaxUID)
    decoder = _decoder(syntax)
    if syntax.is_encapsulated:
        return _decoded(dataset, decoder, find_damage)
    return ((stored, False) for stored in _native(dataset, decoder))


def _decoder(syntax: UID) -> Decoder:
    try:
        decoder = get_decoder(syntax)
    except NotImplementedError:
        decoder = None
    if decoder is None or not decoder.is_available:
        if syntax in uid.MPEGTransferSyntaxes:
            raise UnreadableImage(f"is a video ({syntax.name}); export its frames as images")
        name = syntax.name if syntax.name != syntax else re.sub(r"[^0-9.]", "?", syntax)[:64]
        raise UnreadableImage(f"has pixels in an unsupported transfer syntax, {name}; convert it")
    return decoder


def _native(dataset: Dataset, decoder: Decoder) -> Iterator[Stored]:
    try:
        for values, _ in decoder.iter_array(dataset, allow_excess_frames=False):
            yield values
    except MemoryError:
        raise
    except Exception:  # the decoder's message may quote the header
        raise UnreadableImage(
            "has pixel data that are truncated or do not fit its header; copy or export it again"
        ) from None


def _decoded(dataset: Dataset, decoder: Decoder, find_damage: bool) -> Iterator[tuple[Stored, bool]]:
    count, syntax = frame_count(dataset), decoder.UID
    options = {**as_pixel_options(dataset), "number_of_frames": 1, "extended_offsets": None}
    options = {name: value for name, value in options.items() if value is not None}
    try:
        offsets = None
        if "ExtendedOffsetTable" in dataset:
            offsets = dataset.ExtendedOffsetTable, dataset.ExtendedOffsetTableLengths
        coded_frames = generate_frames(dataset.PixelData, number_of_frames=count, extended_offsets=offsets)
        for _ in range(count):
            coded = next(coded_frames)
            _check_size(coded, dataset, syntax)
            plugin = _plugin(coded, syntax)
            stored = decoder.as_array(encapsulate([coded]), index=0, decoding_plugin=plugin, **options)[0]
            yield stored, find_damage and is_damaged_frame(coded, syntax, stored.shape[0] * stored.shape[1])
    except (UnreadableImage, MemoryError):
        raise
    except Exception:  # the decoder's message may quote the header
        raise UnreadableImage(
            f"has pixel data, in {syntax.name}, that are damaged or unsupported; store it uncompressed"
        ) from None


def _plugin(coded: bytes, syntax: UID) -> str:
    """Return the decoder of a frame: always the same one, whatever else pydicom finds installed."""
    if syntax in JPEG_2000S:
        return "pylibjpeg"
    if syntax == uid.RLELossless:
        return "pydicom"
    eight_bits = syntax == uid.JPEGExtended12Bit and read_jpeg_frame(coded).bits == 8
    return "pillow" if syntax == uid.JPEGBaseline8Bit or eight_bits else LABEL


def _check_size(coded: bytes, dataset: Dataset, syntax: UID) -> None:
    """Refuse a frame whose size differs from the data set's: it may be far larger."""
    expected = integer(dataset, "Columns", 0), integer(dataset, "Rows", 0)
    if syntax in JPEGS:
        (width, height, components, _), tiles = read_jpeg_frame(coded), 1
        if coded.rfind(EOI) < coded.rfind(SOS):  # decoders make up the rest
            raise UnreadableImage("has a truncated compressed frame; copy or export it again")
    elif syntax in JPEG_2000S:
        width, height, components, tiles = read_jpeg_2000_size(coded)
    else:
        return  # RLE: the decoder stops at the size of the frame
    actual = width, height
    if actual != expected:
        raise UnreadableImage(
            f"has a compressed frame of {actual[0]} x {actual[1]} pixels where its header says "
            f"{expected[0]} x {expected[1]}; export it again"
        )
    if components > MAX_COMPONENTS or tiles > MAX_TILES:
        raise UnreadableImage(
            f"has a compressed frame of {components} components and {tiles} tiles; export it as RGB, untiled"
        )
