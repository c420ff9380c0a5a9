"""Read files below allowed folders only, even if links change meanwhile."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cbir.errors import UnreadableImage
from cbir.images import Image, Limits, decode, read_images
from cbir.images.reading import read_file
from cbir.system.files import is_inside

OUTSIDE = "leads out of the folders that may be indexed (index_roots)"


def read_inside(
    path: Path, within: Sequence[Path], limits: Limits, find_damage: bool = False
) -> Iterator[Image]:
    """Read an image file as `cbir.images.read_images` does, if it is inside an allowed folder.

    Parameters
    ----------
    path : Path
        File.
    within : sequence of Path
        Allowed folders; empty: no restriction.
    limits : Limits
        Largest file and image.
    find_damage : bool
        Also look for damage that decoders conceal.

    Yields
    ------
    Image
        Each frame or page.

    Raises
    ------
    UnreadableImage
        Also if the opened file is outside the folders.
    OSError
        If the file cannot be opened.
    """
    if within:
        data = read_file_inside(path, within, limits)
        yield from decode(data, path.name, limits=limits, find_damage=find_damage)
    else:
        yield from read_images(path, limits=limits, find_damage=find_damage)


def read_file_inside(path: Path, within: Sequence[Path], limits: Limits) -> bytes:
    """Return the content of a file, if it is inside an allowed folder; see `read_inside`."""
    if not within:
        return read_file(path, limits)
    with open(path, "rb", opener=_open_nonblocking) as file:
        # On Linux this gives the path of the opened file, even if links have changed since.
        opened = Path(f"/proc/self/fd/{file.fileno()}")
        if not is_inside(opened if opened.exists() else path, within):
            raise UnreadableImage(OUTSIDE)
        size = os.fstat(file.fileno()).st_size
        try:
            limits.check_bytes(size)
        except UnreadableImage as error:
            raise UnreadableImage(f"{path.name} {error}") from error
        return file.read(size)


def _open_nonblocking(path: str, flags: int) -> int:
    # A pipe that has replaced the file may never be written to.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
