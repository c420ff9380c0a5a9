"""Original files of uploaded images, named by a hash of their bytes, never by the client."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from cbir.atomic import sync_folder, write_bytes
from cbir.store.permissions import file_mode, folder_mode

FOLDER = "originals"
UPLOAD = "upload:"  # prefix of the sources of uploaded images


def source_of(data: bytes) -> str:
    """Return the source of the images in an uploaded file."""
    return UPLOAD + hashlib.blake2b(data, digest_size=16).hexdigest()


def original_path(folder: Path, source: str) -> Path | None:
    """Return the path for the original of a source in the collection `folder`; None if it is no upload."""
    return folder / FOLDER / source.removeprefix(UPLOAD) if source.startswith(UPLOAD) else None


def store_original(folder: Path, data: bytes) -> None:
    """Store an uploaded file in the collection `folder`, unless it is there."""
    target = original_path(folder, source_of(data))
    assert target is not None
    if target.exists():
        return
    target.parent.mkdir(mode=folder_mode(folder), exist_ok=True)
    write_bytes(target, data, permissions=file_mode(folder))


def erase_originals(folder: Path, sources: Iterable[str]) -> None:
    """Delete the originals of these sources from the collection `folder`."""
    for source in sources:
        target = original_path(folder, source)
        if target:
            target.unlink(missing_ok=True)


def sweep_originals(folder: Path, needed: set[str]) -> None:
    """Delete every original in the collection `folder` but those of the `needed` sources, as crashes leave some."""
    if (folder / FOLDER).is_dir():
        for file in (folder / FOLDER).iterdir():
            if UPLOAD + file.name not in needed:
                file.unlink(missing_ok=True)
        sync_folder(folder / FOLDER)  # else a power cut could bring them back
