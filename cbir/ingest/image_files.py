"""Find image files in folders."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from stat import S_ISREG

from cbir.errors import InvalidInput, NotFound
from cbir.images.ct_series import CtSeries
from cbir.images.reading import REFUSED_SUFFIXES
from cbir.ingest.manifest import canonical_path
from cbir.system.files import is_inside

VOLUME = ".nii.gz"
HEAD_BYTES = 132  # that tell what a file is
SUFFIXES = {
    ".png",
    ".jpg",
    ".jpeg",
    ".jpe",
    ".tif",
    ".tiff",
    ".bmp",
    ".dib",
    ".dcm",
    ".dicom",
    ".ima",
    ".nii",
}
SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"BM")


def find_images(sources: Sequence[Path], within: Sequence[Path] = ()) -> Iterator[Path]:
    """Yield the absolute paths of all images in `sources`, sorted by name; a source that is a file always counts.

    Links are followed, each folder once. Hidden files and folders are skipped, and files that by name and first
    bytes are not images (csv, text, ...). What cannot be opened is yielded too, folders included: reading it gives
    the reason. A file that is in several sources comes once. Raises NotFound for a missing source.

    within: folders that links may not lead out of; a link that does is yielded under its own name and not followed.
    """
    seen: set[tuple[int, int]] = set()
    for source in sources:
        if not source.exists():
            raise NotFound(f"there is no file or folder {source}")
        if source.is_dir():
            yield from _images_below(source, seen, within)
        elif _is_first_visit(source, seen):
            yield canonical_path(source)


def require_image_files(sources: Sequence[Path], within: Sequence[Path] = ()) -> None:
    """Raise InvalidInput for a folder without an image: a disk that is not mounted must not look like a success.

    within: see `find_images`.
    """
    for folder in sources:
        if folder.is_dir() and next(find_images([folder], within), None) is None:
            raise InvalidInput(
                f"{folder} has no image files; is its disk mounted? Name the folder of the images, or leave it out"
            )


def _images_below(folder: Path, seen: set[tuple[int, int]], within: Sequence[Path]) -> Iterator[Path]:
    errors: list[OSError] = []
    for parent, folders, files in os.walk(folder, followlinks=True, onerror=errors.append):
        real = os.path.realpath(parent)
        if within and not is_inside(Path(real), within):
            folders.clear()
            yield canonical_path(Path(parent))
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if not _is_first_visit(real, seen):
            folders.clear()
            continue
        for name in sorted(files):
            if name.startswith("."):
                continue
            path = os.path.join(real, name)  # a Path only for images: there may be a million files
            leads_out = bool(within) and os.path.islink(path) and not is_inside(Path(path), within)
            if (leads_out or looks_like_image(path)) and _is_first_visit(path, seen):
                yield Path(path)
    yield from (Path(error.filename) for error in errors)


def _is_first_visit(path: Path | str, seen: set[tuple[int, int]]) -> bool:
    """Note a file or folder as seen; return whether it is new. What cannot be examined is always new."""
    try:
        status = os.lstat(path)
    except OSError:
        return True
    identity = status.st_dev, status.st_ino
    is_new = identity not in seen
    seen.add(identity)
    return is_new


def looks_like_image(path: Path | str) -> bool:
    """Return whether a file is worth decoding, by its suffix or else its first bytes (archives often drop suffixes).

    Slides, videos and volumes that cannot be read are: decoding them says what they are.
    Pipes and devices never are; what cannot be opened is, so that reading it gives the reason.
    """
    try:
        if not S_ISREG(os.stat(path).st_mode):
            return False
        if has_image_name(os.path.basename(path)):
            return True
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return True
    return starts_like_image(head)


def has_image_name(name: str) -> bool:
    """Return whether a file is worth decoding by its suffix."""
    name = name.lower()
    suffix = os.path.splitext(name)[1]
    return suffix in SUFFIXES or suffix in REFUSED_SUFFIXES or name.endswith(VOLUME)


def starts_like_image(head: bytes) -> bool:
    """Return whether a file is worth decoding by its first HEAD_BYTES."""
    without_preamble = head[:2] == b"\x08\x00" and head[3:4] == b"\0"  # group 0008, little endian
    return head[128:132] == b"DICM" or head.startswith(SIGNATURES) or without_preamble


def file_stamp(path: Path) -> str:
    """Return a text that changes when the file does: its size and time of modification."""
    status = path.stat()
    return f"{status.st_size}-{status.st_mtime_ns}"


def series_stamp(series: CtSeries) -> str:
    """Return a text that changes when a file of a series does, or there are more or fewer of them."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(series.paths):
        digest.update(f"{path}\0{file_stamp(path)}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()
