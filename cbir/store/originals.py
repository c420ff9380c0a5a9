"""The files that images were sent as, where they are kept: named by a hash of their bytes, never by the client."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from cbir.atomic import write_bytes

FOLDER = "originals"
UPLOAD = "upload:"  # sources of images that were sent here begin with it


def source(data: bytes) -> str:
    """The source of the images in a file that was sent."""
    return UPLOAD + hashlib.blake2b(data, digest_size=16).hexdigest()


def path(folder: Path, of: str) -> Path | None:
    """Where the original of that source lies in a collection's folder, whether it is kept or not."""
    return folder / FOLDER / of.removeprefix(UPLOAD) if of.startswith(UPLOAD) else None


def keep(folder: Path, data: bytes) -> None:
    """Store a file: complete and on the disk when this returns, or not at all."""
    target = path(folder, source(data))
    assert target is not None
    if target.exists():
        return
    target.parent.mkdir(mode=0o700, exist_ok=True)
    write_bytes(target, data)


def erase(folder: Path, sources: Iterable[str]) -> None:
    """Remove the originals of these sources."""
    for one in sources:
        target = path(folder, one)
        if target:
            target.unlink(missing_ok=True)


def sweep(folder: Path, needed: set[str]) -> None:
    """Remove every original but those of the needed sources: what a crash left behind."""
    if (folder / FOLDER).is_dir():
        for file in (folder / FOLDER).iterdir():
            if UPLOAD + file.name not in needed:
                file.unlink(missing_ok=True)
