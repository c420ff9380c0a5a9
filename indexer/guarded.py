"""Reading files below the allowed folders only, though somebody changes links meanwhile."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cbir.errors import UnreadableImage
from cbir.images import Image, Limits, decode, read_images
from cbir.paths import is_inside

OUTSIDE = "leads out of the folders that may be indexed (index_roots)"


def read_inside(path: Path, within: Sequence[Path], limits: Limits) -> Iterator[Image]:
    """As `cbir.images.read_images`, of a file below one of the folders `within`; of any where there are none.

    Raises UnreadableImage also where the file that was opened lies elsewhere, and OSError where it cannot be opened.
    """
    if not within:
        yield from read_images(path, limits=limits)
        return
    with open(path, "rb", opener=_without_waiting) as file:
        # Linux says where the opened file lies, however the links have changed since.
        opened = Path(f"/proc/self/fd/{file.fileno()}")
        if not is_inside(opened if opened.exists() else path, within):
            raise UnreadableImage(OUTSIDE)
        size = os.fstat(file.fileno()).st_size
        try:
            limits.check_bytes(size)
        except UnreadableImage as error:
            raise UnreadableImage(f"{path.name} {error}") from error
        data = file.read(size)
    yield from decode(data, path.name, limits=limits)


def _without_waiting(path: str, flags: int) -> int:
    # Nobody may ever write to a pipe that has taken a file's place.
    return os.open(path, flags | os.O_NONBLOCK)
