"""TIFF 6.0 and BigTIFF decoding: Pillow for pages of bytes, tifffile for all others."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from cbir.errors import UnreadableImage
from cbir.images.bit_depth import Samples
from cbir.images.image import Limits

SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
BIG_ENDIAN_BIG_TIFF = b"MM\0+"
# Tags of TIFF 6.0, sections 8, 15, 18 and 19, and of Technical Note 1.
SUBFILE, OLD_SUBFILE, WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC = 254, 255, 256, 257, 258, 259, 262
STRIP_OFFSETS, SAMPLES, STRIP_ROWS, COLOUR_MAP = 273, 277, 278, 320
TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, EXTRA_SAMPLES, FORMAT, DEPTH = 322, 323, 324, 338, 339, 32997
REDUCED, MASK, OLD_REDUCED = 1, 4, 2  # flags of the first, value of the second
MAX_STRIPS = 100_000  # or tiles, of a page
WEBP = 50001
WHITE_IS_ZERO, PALETTE, UNSIGNED, SIGNED = 0, 3, 1, 2
COLOURS = {0: 1, 1: 1, 2: 3, 3: 1, 5: 4, 6: 3, 8: 3}  # samples by photometric interpretation
SLIDE_ADVICE = "whole-slide images are not read; export regions of it as PNG or TIFF"
_IMAGE_DESCRIPTION, _SOFTWARE, _XMP, _NDPI = 270, 305, 700, 65420  # TIFF tags
_SLIDE_TAGS = (
    (_IMAGE_DESCRIPTION, "Aperio", "Aperio SVS"),
    (_IMAGE_DESCRIPTION, "leica-microsystems.com/scn", "Leica SCN"),
    (_SOFTWARE, "Philips", "Philips TIFF"),
    (_XMP, "iScan", "Ventana BIF"),
)


class TiffPage(NamedTuple):
    """Upright samples of a page; inverted: 0 is white. number: from 1, None for the only one of `pages`."""

    samples: Samples
    inverted: bool
    number: int | None
    pages: int


def decode_tiff(data: bytes, limits: Limits) -> Iterator[TiffPage]:
    """Yield the pages of a TIFF file.

    Reduced copies of another page, and masks, are no pages. `data` is the file. Raises UnreadableImage for damage
    and beyond `limits`, and the decoders' errors for damage.
    """
    directories = list(enumerate(_directories(data, limits)))
    pages = [entry for entry in directories if not _is_auxiliary(entry[1][1])] or directories
    picture: Any = None
    for number, (index, (offset, tags)) in enumerate(pages, start=1):
        _check_page(tags, limits)
        picture = _seek_page(data, picture, index) if _is_ordinary(data, tags) else None
        if picture is None:
            from cbir.images.tiff_pages import read_tiff_page  # only here: few files need it

            samples = read_tiff_page(data, offset, limits)
            inverted = tags.get(PHOTOMETRIC) == WHITE_IS_ZERO
        else:
            samples, inverted = _by_pillow(picture, tags), False  # Pillow inverts them itself
        yield TiffPage(samples, inverted, number if len(pages) > 1 else None, len(pages))


def _is_auxiliary(tags: Any) -> bool:
    """Return True for a reduced copy of another page of the file, and for a transparency mask."""
    return bool(tags.get(SUBFILE, 0) & (REDUCED | MASK)) or tags.get(OLD_SUBFILE) == OLD_REDUCED


def _check_page(tags: Any, limits: Limits) -> None:
    """Refuse a page whose pixels, or one of whose tiles, exceed the limits, or that has too many strips or tiles."""
    width, height = int(tags.get(WIDTH, 0)), int(tags.get(HEIGHT, 0))
    pixel_bytes = int(tags.get(SAMPLES, 1)) * -(-max(tags.get(BITS, (1,))) // 8)
    if reason := name_slide(tags):
        raise UnreadableImage(reason)
    try:
        limits.check_frame(width, height, max(pixel_bytes, 1))
    except UnreadableImage as error:
        if TILE_WIDTH in tags and width > 0 < height:
            raise UnreadableImage(f"{error}; {SLIDE_ADVICE}") from error
        raise
    if tags.get(DEPTH, 1) != 1:
        raise UnreadableImage("has a TIFF page with several layers (ImageDepth); export each as a page")
    rows, tile_width, tile_height = (int(tags.get(tag, 0)) for tag in (STRIP_ROWS, TILE_WIDTH, TILE_HEIGHT))
    if tile_width and tile_height:
        limits.check_frame(tile_width, tile_height, max(pixel_bytes, 1))
        parts = -(-width // tile_width) * -(-height // tile_height)
    else:
        parts = -(-height // max(rows, 1)) if rows else 1
    offsets = (len(tags.get(tag, ())) for tag in (STRIP_OFFSETS, TILE_OFFSETS))
    if max(parts, *offsets) > MAX_STRIPS:
        raise UnreadableImage(f"has a TIFF page of more than {MAX_STRIPS} strips or tiles; save it again")


def _is_ordinary(data: bytes, tags: Any) -> bool:
    """Return True for a page of at most 8 bits whose samples are all colours.

    Of deeper ones, Pillow reduces some, and swaps the bytes of big-endian ones once too often if they are compressed.
    """
    colours = COLOURS.get(tags.get(PHOTOMETRIC, WHITE_IS_ZERO))
    if tags.get(COMPRESSION) == WEBP:  # for which Pillow's library has no decoder
        return False
    alone = tags.get(SAMPLES, colours) == colours and EXTRA_SAMPLES not in tags
    return alone and max(tags.get(BITS, (1,))) <= 8 and not data.startswith(BIG_ENDIAN_BIG_TIFF)


def _seek_page(data: bytes, picture: Any, index: int) -> Any:
    """Open the file with Pillow unless `picture` already is, and go to page `index`; None if it cannot be read so."""
    from PIL.TiffImagePlugin import TiffImageFile

    try:
        picture = picture or TiffImageFile(BytesIO(data))
        picture.seek(index)
    except (SyntaxError, KeyError):  # a combination of tags, or a compression
        return None
    return picture


def _directories(data: bytes, limits: Limits) -> list[tuple[int, Any]]:
    """Read the offset and the tags of every page."""
    from PIL.TiffImagePlugin import ImageFileDirectory_v2 as Directory

    file = BytesIO(data)
    big = data[2:4] in (b"+\0", b"\0+")
    order: Any = "big" if data.startswith(b"MM") else "little"
    start = int.from_bytes(data[8:16] if big else data[4:8], order)
    seen: set[int] = set()
    directories: list[tuple[int, Any]] = []
    while start and start not in seen:
        limits.check_frames(len(seen) + 1)
        seen.add(start)
        file.seek(start)
        tags: Any = Directory(data[:2] + (b"\0*" if order == "big" else b"*\0") + bytes(4))
        tags._bigtiff = big  # Pillow 13 does not see it in the header of a big-endian file
        tags.load(file)
        directories.append((start, tags))
        start = tags.next
    if not directories:
        raise UnreadableImage("is damaged: a TIFF file without a page; export it again")
    return directories


def _by_pillow(picture: Any, tags: Any) -> Samples:
    """Load the current page with Pillow, which applies its orientation."""
    picture.load()
    if picture.mode == "P" and not any(value > 255 for value in tags.get(COLOUR_MAP, (256,))):
        palette = np.array(tags[COLOUR_MAP], np.uint8).reshape(3, -1).T  # of bytes, where words belong
        colours: Samples = palette[np.asarray(picture)]
        return colours
    if picture.mode in ("P", "CMYK", "YCbCr", "LAB"):
        return np.asarray(picture.convert("RGB"))
    samples: Samples = np.asarray(picture)
    signed = tags.get(FORMAT, (UNSIGNED,))[0] == SIGNED
    return samples.view(np.int8) if signed and samples.dtype == np.uint8 else samples


def name_slide(tags: Any) -> str | None:
    """Return what is wrong with a TIFF page that is of a whole-slide image by its tags; None for others."""
    kind = "Hamamatsu NDPI" if _NDPI in tags else None
    for tag, word, name in _SLIDE_TAGS if TILE_WIDTH in tags else ():
        value = tags.get(tag, "")
        text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
        kind = name if word in text else kind
    return kind and f"is a whole-slide image ({kind}); {SLIDE_ADVICE}"
