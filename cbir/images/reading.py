"""Decoding of image files, recognised by their first bytes and never by their name."""

import logging
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock

import cv2

from cbir.errors import UnreadableImage
from cbir.images import nifti, rasters, tiff
from cbir.images.bit_depth import deep_values, to_pixels
from cbir.images.image import Image, Limits, Window
from cbir.images.tiff import SLIDE_ADVICE

BMP_HEADERS = (12, 16, 40, 52, 56, 64, 108, 124)  # lengths of the header that follows the first 14 bytes
NO_MEMORY = -4  # code of cv2.error
SINGLE_FRAME = {"png": rasters.decode_png, "jpeg": rasters.decode_jpeg, "bmp": rasters.decode_bmp}

SLIDES = {  # by suffix; most slides are too large to be read for their kind
    ".svs": "Aperio SVS", ".ndpi": "Hamamatsu NDPI", ".mrxs": "MIRAX", ".scn": "Leica SCN", ".bif": "Ventana BIF",
    ".vms": "Hamamatsu VMS", ".vsi": "Olympus VSI", ".czi": "Zeiss CZI",
}  # fmt: skip
VIDEOS = {".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv"}
VOLUMES = {".nrrd", ".mha", ".mhd", ".mgz"}
REFUSED_SUFFIXES = {*SLIDES, *VIDEOS, *VOLUMES}

_VIDEO = "a video; export its frames as PNG"
_STILL = "convert it to PNG"

_BEGINNINGS = (
    (b"\x1a\x45\xdf\xa3", _VIDEO),  # Matroska, WebM
    (b"\0\0\x01\xba", _VIDEO),  # MPEG
    (b"\0\0\x01\xb3", _VIDEO),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", _VIDEO),  # ASF, WMV
    (b"%PDF", "a PDF document; export its pictures as PNG"),
    (b"GIF8", f"a GIF; {_STILL}"),
    (b"\0\0\0\x0cjP  \r\n", f"a JPEG 2000 file; {_STILL}"),
    (b"\xff\x4f\xff\x51", f"a JPEG 2000 stream; {_STILL}"),
    (b"PK\x03\x04", "a ZIP archive; unpack it"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it"),
    (b"\x1f\x8b", "a gzip file without a NIfTI volume; unpack it"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file; export its images as PNG"),
    (b"NRRD000", "an NRRD volume; convert it to NIfTI"),
    (b"ObjectType", "a MetaImage volume; convert it to NIfTI"),
    (b"ZISRAWFILE", f"a Zeiss CZI slide; {SLIDE_ADVICE}"),
)

cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # our errors report damage, with file names

LOGGERS = ("pydicom", "pylibjpeg", "openjpeg", "imagecodecs", "PIL")
SILENT = logging.CRITICAL + 1

_lock = Lock()
_users = 0
_suppressed = ExitStack()


@contextmanager
def suppress_decoder_logs() -> Iterator[None]:
    """Suppress warnings and the log records of decoders while at least one thread is inside.

    Users are counted: threads that leave warnings.catch_warnings in another order than they entered would leave its
    filters behind.
    """
    global _users
    with _lock:
        if _users == 0:
            _suppressed.enter_context(warnings.catch_warnings(action="ignore"))
            for name in LOGGERS:
                logger = logging.getLogger(name)
                _suppressed.callback(logger.setLevel, logger.level)
                logger.setLevel(SILENT)  # of the loggers below it too, which a filter would not be
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _suppressed.close()


def read_images(
    path: str | os.PathLike[str],
    *,
    limits: Limits = Limits(),
    window: Window | None = None,
    find_damage: bool = False,
    keep_values: bool = False,
) -> Iterator[Image]:
    """Yield every frame or page of a file as `decode` does; Image.source is its name without folders.

    Parameters
    ----------
    path : path-like
        File.
    limits, window, find_damage, keep_values
        See `decode`.

    Raises
    ------
    UnreadableImage
        Also for a file that is missing, not accessible or not regular.
    """
    path = Path(path)
    yield from decode(
        read_file(path, limits),
        path.name,
        limits=limits,
        window=window,
        find_damage=find_damage,
        keep_values=keep_values,
    )


def read_file(path: Path, limits: Limits) -> bytes:
    """Return the content of an image file.

    Raises UnreadableImage for a file that is missing, not accessible, not regular, too large or a slide by its name.
    """
    try:
        if (reason := name_slide_by_path(path)) and path.is_file():  # for all their preview is readable
            raise UnreadableImage(reason)
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableImage("is not a regular file; name an image file")
        limits.check_bytes(status.st_size)
        with path.open("rb") as file:
            return file.read(status.st_size)
    except UnreadableImage as error:
        raise UnreadableImage(f"{path.name} {error}") from error
    except OSError as error:
        raise UnreadableImage(f"{path.name} {name_failure(error)}") from error
    except ValueError as error:  # a name with a zero byte
        raise UnreadableImage(f"{path.name} cannot be read: invalid file name") from error


def name_failure(error: OSError) -> str:
    """Return why a file cannot be read, and the remedy if it is known; without the name of the file."""
    if isinstance(error, PermissionError):
        return "cannot be read: no permission to read it; grant it to the user that runs cbir"
    return f"cannot be read: {error.strerror or error}"


def decode(
    data: bytes,
    name: str = "image",
    *,
    limits: Limits = Limits(),
    window: Window | None = None,
    find_damage: bool = False,
    keep_values: bool = False,
) -> Iterator[Image]:
    """Yield every frame or page of a file's bytes.

    Samples become uint8 as in `cbir.images.from_array` and, for DICOM, `cbir.images.dicom_decoder`. EXIF orientation
    is applied, transparency blended onto black, TIFF "white is zero" inverted.

    Parameters
    ----------
    data : bytes
        A PNG (of an animation the default image), JPEG, TIFF, BMP, DICOM or NIfTI file, recognised by content.
    name : str
        Name for messages and for Image.source.
    limits : Limits
        Largest size that is decoded.
    window : (float, float), optional
        Center and width for grey DICOM frames, instead of those in the file, and for the slices of a NIfTI volume;
        ignored for other images.
    find_damage : bool
        Also look for damage that decoders conceal (Image.damaged); JPEG needs the extra `intake`.
    keep_values : bool
        Keep the values of grey DICOM frames, NIfTI slices, and grey PNG and TIFF images of 16 bits beside their
        pixels (Image.values).

    Raises
    ------
    UnreadableImage
        If the data are of another kind, damaged, truncated or beyond the limits; the only exception that decoding
        raises. The message gives the reason and the remedy and never repeats patient data of a DICOM header.
    """
    try:
        if not isinstance(data, bytes):
            raise UnreadableImage(f"is of type {type(data).__name__}; an image is decoded from bytes")
        limits.check_bytes(len(data))
        if reason := name_slide_by_path(name):
            raise UnreadableImage(reason)
        yield from _without_logs(_images(data, name, limits, window, find_damage, keep_values))
    except UnreadableImage as error:
        raise UnreadableImage(f"{name} {error}") from error
    except Exception as error:  # decoders raise anything on damaged data
        if is_out_of_memory(error):
            raise UnreadableImage(f"{name} needs more memory than there is; make it smaller") from error
        text = error.err if isinstance(error, cv2.error) else str(error)  # without paths of OpenCV's sources
        reason = next(iter(text.splitlines()), type(error).__name__)
        raise UnreadableImage(f"{name} is damaged or unsupported ({reason}); export it again") from error


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return True if `error`, of Python or of OpenCV, says that memory could not be allocated."""
    return isinstance(error, MemoryError) or (isinstance(error, cv2.error) and error.code == NO_MEMORY)


def _without_logs(images: Iterator[Image]) -> Iterator[Image]:
    """Suppress logs while an image is decoded, but not while the caller uses it."""
    while True:
        with suppress_decoder_logs():
            image = next(images, None)
        if image is None:
            return
        yield image


def _images(
    data: bytes, name: str, limits: Limits, window: Window | None, find_damage: bool, keep_values: bool
) -> Iterator[Image]:
    kind = recognise_format(data)
    if kind == "dicom":
        from cbir.images import dicom_decoder

        yield from dicom_decoder.decode_dicom(data, name, limits, window, find_damage, keep_values)
    elif kind == "nifti":
        yield from nifti.decode_nifti(data, name, limits, window, keep_values)
    elif kind == "tiff":
        for page in tiff.decode_tiff(data, limits):
            pixels = to_pixels(page.samples, page.inverted)
            values = deep_values(page.samples, page.inverted) if keep_values else None
            yield Image(pixels, name, kind, page.number, frames=page.pages, values=values)
    else:
        samples = SINGLE_FRAME[kind](data, limits)
        values = deep_values(samples) if keep_values else None
        damaged = find_damage and kind == "jpeg" and _is_damaged_jpeg(data)
        yield Image(to_pixels(samples), name, kind, damaged=damaged, values=values)


def _is_damaged_jpeg(data: bytes) -> bool:
    from cbir.images.coded_damage import is_damaged_jpeg  # imports pydicom

    return is_damaged_jpeg(data)


def recognise_format(data: bytes) -> str:
    """Return "png", "jpeg", "tiff", "bmp", "dicom" or "nifti"; raise UnreadableImage for any other file."""
    if data[128:132] == b"DICM" or _lacks_preamble(data):  # first: the preamble may look like a TIFF file
        return "dicom"
    if data.startswith(rasters.PNG_SIGNATURE):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data.startswith(tiff.SIGNATURES):
        return "tiff"
    if data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in BMP_HEADERS:
        return "bmp"
    if nifti.is_nifti(data):
        return "nifti"
    if kind := name_file(data):
        raise UnreadableImage(f"is {kind}")
    raise UnreadableImage("is not a PNG, JPEG, TIFF, BMP, DICOM or NIfTI file; convert it to one of these")


def _lacks_preamble(data: bytes) -> bool:
    """Return True for a DICOM data set without the 128 bytes and DICM of PS3.10, section 7.1.

    Such data begin with an element of group 0002 or 0008, in either byte order, of a plausible length.
    """
    for order in ("little", "big"):
        group, element = int.from_bytes(data[0:2], order), int.from_bytes(data[2:4], order)
        explicit = data[4:6].isalpha() and data[4:6].isupper()
        length = int.from_bytes(data[6:8] if explicit else data[4:8], order)
        if len(data) >= 12 and group in (2, 8) and element <= 0x100 and length <= min(len(data), 1024):
            return True
    return False


def name_slide_by_path(path: str | os.PathLike[str]) -> str | None:
    """Return what is wrong with a file whose suffix is that of whole-slide images; None for others."""
    kind = SLIDES.get(os.path.splitext(path)[1].lower())
    return kind and f"is a whole-slide image ({kind}); {SLIDE_ADVICE}"


def name_file(data: bytes) -> str | None:
    """Return the kind of a file that is not decoded, and the remedy; None for an unknown one."""
    if data[4:8] == b"ftyp":
        still = data[8:12] in (b"heic", b"heix", b"mif1", b"avif")
        return f"a HEIF or AVIF image; {_STILL}" if still else _VIDEO
    if data[:4] == b"RIFF":
        return (
            _VIDEO if data[8:12] == b"AVI " else f"a WebP image; {_STILL}" if data[8:12] == b"WEBP" else None
        )
    return next((kind for beginning, kind in _BEGINNINGS if data.startswith(beginning)), None)
