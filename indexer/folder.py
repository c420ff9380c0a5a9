"""Finds image files below folders."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cbir.errors import NotFound

SUFFIXES = {".png", ".jpg", ".jpeg", ".jpe", ".tif", ".tiff", ".bmp", ".dib", ".dcm", ".dicom", ".ima"}
SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"BM")


def walk(sources: Sequence[Path]) -> Iterator[Path]:
    """Absolute paths of all images, in the order of their names; a file named outright always counts.

    Hidden files and folders are passed over, as is what by name and first bytes is no image (csv, text, ...).
    A folder or file named twice, or inside another source, comes once. Raises NotFound for a missing source.
    """
    roots: list[Path] = []
    for source in sources:
        if not source.exists():
            raise NotFound(f"there is no file or folder {source}")
        root = source.resolve()
        if root in roots or any(earlier in root.parents for earlier in roots):
            continue
        roots.append(root)
        yield from _below(root, roots[:-1]) if root.is_dir() else iter([root])


def _below(folder: Path, done: list[Path]) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and here / name not in done)
        for name in sorted(files):
            path = here / name
            if not name.startswith(".") and path not in done and looks_like_image(path):
                yield path


def looks_like_image(path: Path) -> bool:
    """Whether a file is worth decoding: by its suffix, else by its first bytes (archives often drop suffixes)."""
    if path.suffix.lower() in SUFFIXES:
        return True
    try:
        with path.open("rb") as file:
            head = file.read(132)
    except OSError:
        return False
    without_preamble = head[:2] == b"\x08\x00" and head[3:4] == b"\0"  # group 0008, little endian
    return head[128:132] == b"DICM" or head.startswith(SIGNATURES) or without_preamble


def stamp(path: Path) -> str:
    """Changes when the file does: its size and its time of modification."""
    status = path.stat()
    return f"{status.st_size}-{status.st_mtime_ns}"
