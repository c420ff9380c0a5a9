"""TIFF pages of any depth and layout, decoded by tifffile with imagecodecs."""

import logging
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tifffile import COMPRESSION, PHOTOMETRIC, TiffFile, TiffPage

from cbir.errors import UnreadableImage
from cbir.images.bit_depth import Samples
from cbir.images.image import Limits
from cbir.images.jpeg_codecs import read_jpeg_frame
from cbir.images.rasters import apply_orientation

logging.getLogger("tifffile").setLevel(logging.CRITICAL + 1)  # our errors report damage, with file names

COLOURS = {
    PHOTOMETRIC.MINISWHITE: 1, PHOTOMETRIC.MINISBLACK: 1, PHOTOMETRIC.RGB: 3, PHOTOMETRIC.PALETTE: 1,
    PHOTOMETRIC.SEPARATED: 4, PHOTOMETRIC.YCBCR: 3,
}  # fmt: skip
JPEG = COMPRESSION.JPEG
# Their decoders stop at the size of a strip or tile.
COMPRESSIONS = {
    COMPRESSION.NONE, COMPRESSION.LZW, COMPRESSION.ADOBE_DEFLATE, COMPRESSION.DEFLATE, COMPRESSION.PACKBITS,
    COMPRESSION.LZMA, COMPRESSION.ZSTD, JPEG,
}  # fmt: skip
WHOLE_TYPES = (8, 16, 32, 64)  # bits of samples that use all values of their type
ASSOCIATED, UNASSOCIATED = (
    1,
    2,
)  # ExtraSamples: alpha that colours were multiplied with, and alpha that they were not
SEPARATE = 2  # planes, of PlanarConfiguration
BYTE = 255


def read_tiff_page(data: bytes, offset: int, limits: Limits) -> Samples:
    """Decode one page to (height, width), RGB or RGBA (height, width, 3 or 4), upright.

    Samples of other depths than 8, 16 and 32 bits become uint8. Transparency is applied where it already is in the
    colours, and stays in the fourth sample otherwise; unspecified samples are left out.

    Parameters
    ----------
    data : bytes
        The file.
    offset : int
        Place of the page's directory.
    limits : Limits
        Largest page that is decoded.

    Raises
    ------
    UnreadableImage
        For damage, beyond the limits, and for what is not supported, with the reason; tifffile's errors for damage.
    """
    page = _open_page(data, offset)
    _check_page(page, data, limits)
    samples = _decode_page(page, data, offset, limits)
    if page.axes.startswith("S"):
        samples = np.moveaxis(samples, 0, -1)
    samples = samples.reshape(page.imagelength, page.imagewidth, -1)
    count = COLOURS[PHOTOMETRIC(page.photometric)]
    colours, kinds = samples[:, :, :count], tuple(page.extrasamples)
    colours = _as_displayed(colours, page)
    kind = next((kind for kind in (ASSOCIATED, UNASSOCIATED) if kind in kinds), None)
    if kind == UNASSOCIATED or (kind == ASSOCIATED and page.photometric == PHOTOMETRIC.MINISWHITE):
        alpha = samples[:, :, count + kinds.index(kind)][:, :, np.newaxis]
        alpha = _as_bytes(alpha, page) if colours.dtype == np.uint8 else alpha
        colours = _with_alpha(colours, alpha) if kind == UNASSOCIATED else _blackened(colours, alpha)
    orientation = page.tags.get("Orientation")
    return apply_orientation(colours, None if orientation is None else int(orientation.value))


def _with_alpha(colours: Samples, alpha: Samples) -> Samples:
    return np.concatenate([np.repeat(colours, 3, 2) if colours.shape[2] == 1 else colours, alpha], 2)


def _blackened(ink: Samples, alpha: Samples) -> Samples:
    """Return ink that was multiplied with alpha, where none is white, with the ink of a black ground added."""
    kind: Any = ink.dtype
    most = 1 if kind.kind == "f" else np.iinfo(kind).max
    blackened: Samples = np.minimum(ink, alpha) + (most - alpha)
    return blackened


def _open_page(data: bytes, offset: int) -> Any:
    file = TiffFile(BytesIO(data))
    file.filehandle.seek(offset)
    return TiffPage(file, index=0)


def _decode_page(page: Any, data: bytes, offset: int, limits: Limits) -> Samples:
    """Return the samples as tifffile gives them, also if the last strip is filled up to the size of the others."""
    try:
        return np.asarray(page.asarray(maxworkers=1))
    except Exception:
        height = -(-page.imagelength // max(page.rowsperstrip, 1)) * page.rowsperstrip
        if page.is_tiled or height == page.imagelength:
            raise
        limits.check_frame(page.imagewidth, height, page.samplesperpixel * page.dtype.itemsize)
        filled, axis = _open_page(data, offset), page.axes.index("Y")
        filled.imagelength = height
        filled.shape = (*page.shape[:axis], height, *page.shape[axis + 1 :])
        filled.shaped = (*page.shaped[:2], height, *page.shaped[3:])
        samples = np.asarray(filled.asarray(maxworkers=1))
        return samples.take(range(page.imagelength), axis)


def _check_page(page: Any, data: bytes, limits: Limits) -> None:
    """Refuse a page that is not supported, too large, or not there as a whole."""
    bits = page.bitspersample
    if page.photometric not in COLOURS or page.samplesperpixel < COLOURS[PHOTOMETRIC(page.photometric)]:
        raise UnreadableImage(
            f"has a TIFF page of photometric interpretation {page.photometric:d} with {page.samplesperpixel} samples "
            f"of {bits} bits, which is not read; export it as grey or RGB"
        )
    if page.compression not in COMPRESSIONS:
        raise UnreadableImage(
            f"has a TIFF page in compression {page.compression:d}, which is not read; save it with LZW or deflate"
        )
    if page.photometric == PHOTOMETRIC.YCBCR and page.compression != JPEG:
        raise UnreadableImage("has a TIFF page of YCbCr without JPEG, which is not read; export it as RGB")
    triples = (
        bits == 24 and page.dtype is not None and page.dtype.kind in "iu"
    )  # tifffile takes them for packed
    if page.dtype is None or page.dtype.kind not in "buif" or not isinstance(bits, int) or triples:
        raise UnreadableImage(
            f"has a TIFF page with samples of {bits} bits, which are not read; export it with 16"
        )
    if page.imagedepth != 1 or page.tiledepth != 1:
        raise UnreadableImage("has a TIFF page with several layers (ImageDepth); export each as a page")
    pixel_bytes = page.samplesperpixel * page.dtype.itemsize
    limits.check_frame(page.imagewidth, page.imagelength, pixel_bytes)
    if page.is_tiled:
        limits.check_frame(page.tilewidth, page.tilelength, pixel_bytes)
    counts, needed = page.databytecounts, int(np.prod(page.chunked))
    if page.planarconfig == SEPARATE:  # planes of unspecified samples may be missing
        used = COLOURS[PHOTOMETRIC(page.photometric)] + len(page.extrasamples) * (
            UNASSOCIATED in page.extrasamples
        )
        needed = needed // page.samplesperpixel * used
    if len(page.dataoffsets) != len(counts) or len(counts) < needed:
        raise UnreadableImage("has a TIFF page without some of its strips or tiles; copy or export it again")
    parts = list(zip(page.dataoffsets, counts, strict=True))[:needed]
    if page.compression == COMPRESSION.NONE:  # their size is known, and some writers give another
        whole = int(np.prod(page.chunks)) * page.dtype.itemsize
        parts = [(start, min(size, whole)) for start, size in parts]
    if any(size <= 0 or start + size > len(data) for start, size in parts):
        raise UnreadableImage("has a truncated TIFF page; copy or export it again")
    if page.compression == JPEG:
        _check_jpegs(page, data)


def _check_jpegs(page: Any, data: bytes) -> None:
    """Refuse a page with a JPEG stream that is larger than its strip or tile."""
    width, height = (
        (page.tilewidth, page.tilelength) if page.is_tiled else (page.imagewidth, page.rowsperstrip)
    )
    for start, size in zip(page.dataoffsets, page.databytecounts, strict=True):
        frame = read_jpeg_frame(data[start : start + size])
        if frame.width > width or frame.height > height or frame.channels > page.samplesperpixel:
            raise UnreadableImage("has a TIFF page with a JPEG stream of another size; export it again")


def _as_displayed(colours: Samples, page: Any) -> Samples:
    """Return grey or RGB samples for colours of any kind, and odd depths as bytes."""
    if page.photometric == PHOTOMETRIC.PALETTE:
        palette = np.asarray(page.colormap)
        rgb: Samples = (palette if palette.max() <= BYTE else palette >> 8).astype(np.uint8)[
            :, colours[:, :, 0]
        ]
        return np.moveaxis(rgb, 0, -1)
    if page.photometric == PHOTOMETRIC.SEPARATED:
        from PIL.Image import fromarray

        inks = np.ascontiguousarray(_as_bytes(colours, page))
        return np.asarray(fromarray(inks, "CMYK").convert("RGB"))
    if colours.dtype.kind == "u" and page.bitspersample not in WHOLE_TYPES:
        return _as_bytes(colours, page)
    return colours


def _as_bytes(samples: Samples, page: Any) -> NDArray[np.uint8]:
    """Scale unsigned samples of any depth to 8 bits."""
    if samples.dtype.kind != "u":
        raise UnreadableImage(
            "has a TIFF page of inks or transparency that are no whole numbers; export it as RGB"
        )
    values = samples.astype(np.float64)
    return np.asarray(np.rint(values * (BYTE / (2.0**page.bitspersample - 1))), np.uint8)
