"""The way in: which decoder a file needs is told by its first bytes, never by its name."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import cv2

from cbir.errors import UnreadableImage
from cbir.images import png, rasters, tiff
from cbir.images.bit_depth import to_pixels
from cbir.images.image import Image
from cbir.images.limits import Limits
from cbir.images.suppress_logs import suppress_decoder_logs

BMP_HEADERS = (12, 16, 40, 52, 56, 64, 108, 124)  # lengths of what follows the 14 bytes of the file's own
SINGLE = {"png": png.decode_png, "jpeg": rasters.decode_jpeg, "bmp": rasters.decode_bmp}

cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # we tell of damage ourselves, with names


def read_images(path: str | os.PathLike[str], *, limits: Limits = Limits()) -> Iterator[Image]:
    """Every frame or page of a file, one at a time; see `decode`. Its name, without folders, becomes Image.source.

    Raises UnreadableImage also for a file that is not there, may not be opened or is no ordinary one.
    """
    path = Path(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableImage("is no ordinary file; name an image file")
        limits.check_bytes(status.st_size)
        with path.open("rb") as file:
            data = file.read(status.st_size)
    except UnreadableImage as error:
        raise UnreadableImage(f"{path.name} {error}") from error
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        reason = getattr(error, "strerror", None) or "no file can have such a name"
        raise UnreadableImage(f"{path.name} cannot be read: {reason}") from error
    yield from decode(data, path.name, limits=limits)


def decode(
    data: bytes,
    name: str = "image",
    *,
    limits: Limits = Limits(),
    window: tuple[float, float] | None = None,
) -> Iterator[Image]:
    """Every frame or page of a file's bytes, one at a time; `name` stands in messages and as their source.

    data: a PNG (of an animation the still picture), JPEG, TIFF, BMP or DICOM file, recognised by content.
    window: center and width for grey DICOM frames, instead of what the file says; others are left as they are.

    Samples become uint8 as `cbir.images.from_array` and, for DICOM, `cbir.images.dicom_decoder` say. EXIF orientation is
    applied, transparency laid onto black, TIFF "white is zero" inverted.

    Raises UnreadableImage, with the reason and what to do, and nothing else: for data of another kind, damaged, cut
    short or beyond the limits. The text never repeats what a DICOM header says of a patient.
    """
    try:
        if not isinstance(data, bytes):
            raise UnreadableImage(f"is of type {type(data).__name__}; an image is decoded from bytes")
        limits.check_bytes(len(data))
        yield from _quietly(_images(data, name, limits, window))
    except UnreadableImage as error:
        raise UnreadableImage(f"{name} {error}") from error
    except MemoryError as error:
        raise UnreadableImage(f"{name} needs more memory than there is; make it smaller") from error
    except Exception as error:  # decoders raise whatever damaged bytes lead them to
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UnreadableImage(
            f"{name} is damaged or of an unusual kind ({reason}); export it again"
        ) from error


def _quietly(images: Iterator[Image]) -> Iterator[Image]:
    """The images, made without warnings; what the caller does between them is the caller's."""
    while True:
        with suppress_decoder_logs():
            image = next(images, None)
        if image is None:
            return
        yield image


def _images(data: bytes, name: str, limits: Limits, window: tuple[float, float] | None) -> Iterator[Image]:
    kind = recognise_format(data)
    if kind == "dicom":
        from cbir.images import dicom_decoder

        yield from dicom_decoder.decode_dicom(data, name, limits, window)
    elif kind == "tiff":
        for pixels, number in tiff.decode_tiff(data, limits):
            yield Image(pixels, name, kind, number)
    else:
        yield Image(to_pixels(SINGLE[kind](data, limits)), name, kind)


def recognise_format(data: bytes) -> str:
    """The kind of a file: "png", "jpeg", "tiff", "bmp" or "dicom". Raises UnreadableImage for any other."""
    if data[128:132] == b"DICM" or _without_preamble(data):  # first: the preamble may look like a TIFF file
        return "dicom"
    if data.startswith(png.SIGNATURE):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data.startswith(tiff.SIGNATURES):
        return "tiff"
    if data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in BMP_HEADERS:
        return "bmp"
    raise UnreadableImage("is not a PNG, JPEG, TIFF, BMP or DICOM file; convert it to one of these")


def _without_preamble(data: bytes) -> bool:
    """Whether the bytes begin like a data set stored without the 128 bytes and DICM of PS3.10, section 7.1.

    That is with an element of group 0002 or 0008, in either byte order, of a plausible length.
    """
    for order in ("little", "big"):
        group, element = int.from_bytes(data[0:2], order), int.from_bytes(data[2:4], order)
        explicit = data[4:6].isalpha() and data[4:6].isupper()
        length = int.from_bytes(data[6:8] if explicit else data[4:8], order)
        if len(data) >= 12 and group in (2, 8) and element <= 0x100 and length <= min(len(data), 1024):
            return True
    return False
