"""TIFF 6.0 and BigTIFF decoding: Pillow for ordinary pages, OpenCV for depths that Pillow would reduce."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import cv2
import numpy as np

from cbir.errors import UnreadableImage
from cbir.images.bit_depth import Pixels, Samples, to_pixels
from cbir.images.limits import Limits
from cbir.images.other_files import SLIDE_ADVICE, name_slide

SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
WIDTH, HEIGHT, BITS, PHOTOMETRIC, FORMAT = 256, 257, 258, 262, 339  # section 8 and 19
STRIP_OFFSETS, SAMPLES, STRIP_ROWS, TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS = (
    273,
    277,
    278,
    322,
    323,
    324,
)  # 8, 15
MAX_STRIPS = 100_000  # or tiles, of a page
WHITE_IS_ZERO, UNSIGNED, SIGNED = 0, 1, 2


def decode_tiff(data: bytes, limits: Limits) -> Iterator[tuple[Pixels, int | None, int]]:
    """Yield the upright pixels of each page, its number from 1 (None for the only page), and the number of pages.

    `data` is the file. Raises UnreadableImage for damage and beyond `limits`, and Pillow's errors for damage.
    """
    directories = _directories(data, limits)
    picture: Any = None
    for index, tags in enumerate(directories):
        _check_page(tags, limits)
        if _deep(tags):
            samples = _by_opencv(data, index)
            inverted = tags.get(PHOTOMETRIC) == WHITE_IS_ZERO
        else:
            picture = _seek_page(data, picture, index)
            samples = _by_pillow(picture, tags)
            # Pillow inverts all other modes itself
            inverted = tags.get(PHOTOMETRIC) == WHITE_IS_ZERO and picture.mode[0] in "IF"
        pixels = to_pixels(samples)
        count = len(directories)
        yield 255 - pixels if inverted else pixels, index + 1 if count > 1 else None, count


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
    rows, tile_width, tile_height = (int(tags.get(tag, 0)) for tag in (STRIP_ROWS, TILE_WIDTH, TILE_HEIGHT))
    if tile_width and tile_height:
        limits.check_frame(tile_width, tile_height, max(pixel_bytes, 1))
        parts = -(-width // tile_width) * -(-height // tile_height)
    else:
        parts = -(-height // max(rows, 1)) if rows else 1
    offsets = (len(tags.get(tag, ())) for tag in (STRIP_OFFSETS, TILE_OFFSETS))
    if max(parts, *offsets) > MAX_STRIPS:
        raise UnreadableImage(f"has a TIFF page of more than {MAX_STRIPS} strips or tiles; save it again")


def _seek_page(data: bytes, picture: Any, index: int) -> Any:
    """Open the file with Pillow unless `picture` already is, and go to page `index`."""
    from PIL.TiffImagePlugin import TiffImageFile

    try:
        picture = picture or TiffImageFile(BytesIO(data))
        picture.seek(index)
    except SyntaxError:  # a combination of tags that Pillow does not know
        raise UnreadableImage("has an unsupported TIFF page; export it with 8 or 16 bits") from None
    return picture


def _directories(data: bytes, limits: Limits) -> list[Any]:
    """Read the tags of every page."""
    from PIL.TiffImagePlugin import ImageFileDirectory_v2 as Directory

    file = BytesIO(data)
    big = data[2:4] in (b"+\0", b"\0+")
    start = Directory(file.read(16 if big else 8)).next
    seen: set[int] = set()
    directories: list[Any] = []
    while start and start not in seen:
        limits.check_frames(len(seen) + 1)
        seen.add(start)
        file.seek(start)
        tags = Directory(data[: 16 if big else 8])
        tags.load(file)
        directories.append(tags)
        start = tags.next
    if not directories:
        raise UnreadableImage("is damaged: a TIFF file without a page; export it again")
    return directories


def _deep(tags: Any) -> bool:
    """Return True if Pillow would reduce the page's samples to eight bits, or refuse them."""
    bits = tags.get(BITS, (1,))
    return max(bits) > 32 or (len(bits) > 1 and max(bits) > 8)


def _by_opencv(data: bytes, index: int) -> Samples:
    """Decode a page with OpenCV, which always applies the orientation of TIFF."""
    file = np.frombuffer(data, np.uint8)
    success, decoded = cv2.imdecodemulti(file, cv2.IMREAD_UNCHANGED, range=(index, index + 1))
    if not success or len(decoded) != 1:
        raise UnreadableImage("has a TIFF page that is damaged or unsupported; export it with 8 or 16 bits")
    samples = decoded[0]
    if samples.ndim == 3:
        samples = samples[:, :, [2, 1, 0, 3][: samples.shape[2]]]  # OpenCV gives BGR(A), of any depth
    return samples


def _by_pillow(picture: Any, tags: Any) -> Samples:
    """Load the current page with Pillow, which applies its orientation."""
    picture.load()
    if picture.mode in ("P", "CMYK", "YCbCr", "LAB"):
        return np.asarray(picture.convert("RGB"))
    if picture.mode in ("LA", "PA", "La", "RGBa"):
        return np.asarray(picture.convert("RGBA"))
    samples: Samples = np.asarray(picture)
    kind = tags.get(FORMAT, (UNSIGNED,))[0]
    if samples.dtype == np.int32 and kind == UNSIGNED:
        return samples.view(np.uint32)
    if samples.dtype == np.uint8 and kind == SIGNED and picture.mode == "L":
        return samples.view(np.int8)
    return samples
