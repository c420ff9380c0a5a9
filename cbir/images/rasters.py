"""PNG, JPEG, TIFF and BMP. OpenCV decodes the ordinary ones, Pillow tells what they are and decodes the rest."""

import warnings
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.errors import UnreadableImage
from cbir.images.depth import onto_black, simplest, to_bytes
from cbir.images.image import Image
from cbir.images.limits import Limits

ORIENTATION = 0x0112  # EXIF 2.32, section 4.6.4
PHOTOMETRIC, MIN_IS_WHITE = 262, 0  # TIFF 6.0, section 8

cv2.utils.logging.setLogLevel(
    cv2.utils.logging.LOG_LEVEL_SILENT
)  # damaged files are told of by us, with their names


def frames(data: bytes, kind: str, name: str, limits: Limits) -> Iterator[Image]:
    """The pages of a raster file; `kind` is "png", "jpeg", "tiff" or "bmp"."""
    try:
        yield from _frames(data, kind, name, limits)
    except UnreadableImage:
        raise
    except MemoryError:
        raise UnreadableImage(f"{name} needs more memory than there is") from None
    except Exception as error:  # decoders raise whatever damaged bytes lead them to
        raise UnreadableImage(f"{name} is a damaged {kind.upper()} file") from error


def _frames(data: bytes, kind: str, name: str, limits: Limits) -> Iterator[Image]:
    opened = _open(data, kind)
    pages = getattr(opened, "n_frames", 1) if kind == "tiff" else 1
    limits.check_frames(name, pages)
    for page in range(pages):
        if page:
            opened.seek(page)
        limits.check_pixels(name, *opened.size)
        ordinary = _ordinary(opened, data, kind) and _whole(data, kind)
        pixels = _by_opencv(data, name, kind) if ordinary else _by_pillow(opened, name)
        yield Image(simplest(pixels), name, kind, page + 1 if pages > 1 else None)


def _open(data: bytes, kind: str) -> Any:
    from PIL import Image as Pillow

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sizes are checked by us
        return Pillow.open(BytesIO(data), formats=[kind.upper()])


def _ordinary(opened: Any, data: bytes, kind: str) -> bool:
    """Whether OpenCV gives the pixels as they are meant: no palette, transparency, rotation or ink."""
    if kind == "png":
        return (
            opened.mode in ("L", "RGB", "I;16") and "transparency" not in opened.info and b"eXIf" not in data
        )
    if kind == "jpeg":
        return opened.mode in ("L", "RGB") and opened.getexif().get(ORIENTATION, 1) == 1
    return False


def _whole(data: bytes, kind: str) -> bool:
    """Whether the end is there: OpenCV fills up what is missing, Pillow refuses."""
    return data.rfind(b"IEND" if kind == "png" else b"\xff\xd9") > len(data) // 2


def _by_opencv(data: bytes, name: str, kind: str) -> NDArray[np.uint8]:
    found = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if found is None:
        raise UnreadableImage(f"{name} is a damaged {kind.upper()} file")
    if found.ndim == 3:
        found = cv2.cvtColor(found, cv2.COLOR_BGR2RGB)
    return to_bytes(found, name)


def _by_pillow(opened: Any, name: str) -> NDArray[np.uint8]:
    from PIL import ImageOps

    mode = opened.mode
    upright = ImageOps.exif_transpose(opened)
    if "transparency" in opened.info or mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        return onto_black(np.asarray(upright.convert("RGBA")))
    if mode.startswith(("I", "F")):
        return _deep(upright, name, getattr(opened, "tag_v2", {}).get(PHOTOMETRIC) == MIN_IS_WHITE)
    return np.asarray(upright.convert("L" if mode in ("1", "L") else "RGB"))


def _deep(upright: Any, name: str, min_is_white: bool) -> NDArray[np.uint8]:
    """Pixels of more than eight bits."""
    values = np.asarray(upright)
    if values.dtype.kind in "ui" and values.dtype.itemsize == 2:
        values = values.astype(np.uint16)  # whatever their byte order
    pixels = to_bytes(values, name)
    return 255 - pixels if min_is_white else pixels
