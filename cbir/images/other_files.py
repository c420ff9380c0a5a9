"""Names of kinds of files that are not decoded, for messages."""

import os
from typing import Any

SLIDES = {  # by suffix; most slides are too large to be read for their kind
    ".svs": "Aperio SVS", ".ndpi": "Hamamatsu NDPI", ".mrxs": "MIRAX", ".scn": "Leica SCN", ".bif": "Ventana BIF",
    ".vms": "Hamamatsu VMS", ".vsi": "Olympus VSI", ".czi": "Zeiss CZI",
}  # fmt: skip
VIDEOS = {".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv"}
VOLUMES = {".nrrd", ".mha", ".mhd", ".mgz"}
REFUSED_SUFFIXES = {*SLIDES, *VIDEOS, *VOLUMES}

SLIDE_ADVICE = "whole-slide images are not read; export regions of it as PNG or TIFF"
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
_IMAGE_DESCRIPTION, _SOFTWARE, _TILE_WIDTH, _XMP, _NDPI = 270, 305, 322, 700, 65420  # TIFF tags
_SLIDE_TAGS = (
    (_IMAGE_DESCRIPTION, "Aperio", "Aperio SVS"),
    (_IMAGE_DESCRIPTION, "leica-microsystems.com/scn", "Leica SCN"),
    (_SOFTWARE, "Philips", "Philips TIFF"),
    (_XMP, "iScan", "Ventana BIF"),
)


def name_slide_by_path(path: str | os.PathLike[str]) -> str | None:
    """Return what is wrong with a file whose suffix is that of whole-slide images; None for others."""
    kind = SLIDES.get(os.path.splitext(path)[1].lower())
    return kind and f"is a whole-slide image ({kind}); {SLIDE_ADVICE}"


def name_slide(tags: Any) -> str | None:
    """Return what is wrong with a TIFF page that is of a whole-slide image by its tags; None for others."""
    kind = "Hamamatsu NDPI" if _NDPI in tags else None
    for tag, word, name in _SLIDE_TAGS if _TILE_WIDTH in tags else ():
        value = tags.get(tag, "")
        text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
        kind = name if word in text else kind
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
