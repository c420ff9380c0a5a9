"""The way in: which decoder a file needs is told by its first bytes, never by its name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from cbir.errors import UnreadableImage
from cbir.images.image import Image
from cbir.images.limits import Limits

RASTERS = {
    b"\x89PNG\r\n\x1a\n": "png",
    b"\xff\xd8\xff": "jpeg",
    b"II*\0": "tiff",
    b"MM\0*": "tiff",
    b"II+\0": "tiff",
    b"MM\0+": "tiff",
    b"BM": "bmp",
}


def read(path: Path | str, *, limits: Limits = Limits()) -> Iterator[Image]:
    """Every frame or page of a file, one at a time.

    Raises UnreadableImage, with the reason and what to do, where it is none that can be decoded.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(limits.bytes + 1)
    except OSError as error:
        raise UnreadableImage(f"{path.name} cannot be read: {error.strerror}") from error
    if len(data) > limits.bytes:
        limits.check_bytes(path.name, path.stat().st_size)
    yield from decode(data, path.name, limits=limits)


def decode(data: bytes, name: str = "image", *, limits: Limits = Limits()) -> Iterator[Image]:
    """Every frame or page of a file's bytes, one at a time; `name` stands in messages and as their source.

    Raises UnreadableImage, with the reason and what to do, where they are none that can be decoded.
    """
    limits.check_bytes(name, len(data))
    if not data:
        raise UnreadableImage(f"{name} is empty")
    if data[128:132] == b"DICM" or _without_preamble(data):  # first: the preamble may look like a TIFF file
        from cbir.images import dicom

        yield from dicom.frames(data, name, limits)
        return
    for signature, kind in RASTERS.items():
        if data.startswith(signature):
            from cbir.images import rasters

            yield from rasters.frames(data, kind, name, limits)
            return
    raise UnreadableImage(f"{name} is not a PNG, JPEG, TIFF, BMP or DICOM file")


def _without_preamble(data: bytes) -> bool:
    """Whether the bytes begin like a data set stored without the 128 bytes and DICM of PS3.10, section 7.1.

    That is with an element of group 0002 or 0008, in either byte order, of a plausible length.
    """
    order: Literal["little", "big"] = "little" if data[1:2] == b"\0" else "big"
    group, element = int.from_bytes(data[0:2], order), int.from_bytes(data[2:4], order)
    if len(data) < 12 or group not in (2, 8) or element > 0x100:
        return False
    explicit = data[4:6].isalpha() and data[4:6].isupper()
    length = int.from_bytes(data[6:8] if explicit else data[4:8], order)
    return length <= min(len(data), 1024)
