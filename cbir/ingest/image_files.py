"""Finds image files below folders."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from stat import S_ISREG

from cbir.datasets.manifest import canonical_path
from cbir.errors import NotFound
from cbir.paths import is_inside

SUFFIXES = {".png", ".jpg", ".jpeg", ".jpe", ".tif", ".tiff", ".bmp", ".dib", ".dcm", ".dicom", ".ima"}
SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"BM")


def find_images(sources: Sequence[Path], within: Sequence[Path] = ()) -> Iterator[Path]:
    """Absolute paths of all images, in the order of their names; a file named outright always counts.

    Links are followed, each folder once. Hidden files and folders are passed over, as is what by name and first
    bytes is no image (csv, text, ...). What cannot be looked into comes too, folders included: reading it will say
    why. A folder or file named twice, or inside another source, comes once. Raises NotFound for a missing source.

    within: folders that links may not lead out of; what does comes by the name of the link, and is not looked at.
    """
    seen: set[tuple[int, int]] = set()
    for source in sources:
        if not source.exists():
            raise NotFound(f"there is no file or folder {source}")
        if source.is_dir():
            yield from _below(source, seen, within)
        elif _first_time(source, seen):
            yield canonical_path(source)


def _below(folder: Path, seen: set[tuple[int, int]], within: Sequence[Path]) -> Iterator[Path]:
    closed: list[OSError] = []
    for where, folders, files in os.walk(folder, followlinks=True, onerror=closed.append):
        here = os.path.realpath(where)
        if within and not is_inside(Path(here), within):
            folders.clear()
            yield canonical_path(Path(where))
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if not _first_time(here, seen):
            folders.clear()
            continue
        for name in sorted(files):
            if name.startswith("."):
                continue
            path = os.path.join(here, name)  # a Path only for what is an image: there may be a million files
            leads_out = bool(within) and os.path.islink(path) and not is_inside(Path(path), within)
            if (leads_out or looks_like_image(path)) and _first_time(path, seen):
                yield Path(path)
    yield from (Path(error.filename) for error in closed)


def _first_time(path: Path | str, seen: set[tuple[int, int]]) -> bool:
    """Whether this very file or folder was not met before; what cannot be looked at always is new."""
    try:
        status = os.lstat(path)
    except OSError:
        return True
    this = status.st_dev, status.st_ino
    met = this in seen
    seen.add(this)
    return not met


def looks_like_image(path: Path | str) -> bool:
    """Whether a file is worth decoding: by its suffix, else by its first bytes (archives often drop suffixes).

    Pipes and devices never are; what cannot be opened is, so that reading it says why.
    """
    try:
        if not S_ISREG(os.stat(path).st_mode):
            return False
        if os.path.splitext(path)[1].lower() in SUFFIXES:
            return True
        with open(path, "rb") as file:
            head = file.read(132)
    except OSError:
        return True
    without_preamble = head[:2] == b"\x08\x00" and head[3:4] == b"\0"  # group 0008, little endian
    return head[128:132] == b"DICM" or head.startswith(SIGNATURES) or without_preamble


def file_stamp(path: Path) -> str:
    """Changes when the file does: its size and its time of modification."""
    status = path.stat()
    return f"{status.st_size}-{status.st_mtime_ns}"
