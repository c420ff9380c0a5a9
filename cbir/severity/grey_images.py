"""Collection images as grey pictures of one size."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.errors import CbirError, InvalidInput
from cbir.images import Image, Limits, decode, read_images
from cbir.images.pad_resize import pad_resize
from cbir.search import select_frame
from cbir.store import Collection, Record, originals
from cbir.store.filter_conditions import Condition
from cbir.threads import cores

Show = Callable[[int, int], None]
Picture = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class GreyImages:
    """Pictures (n, side, side) uint8 with their records, and the ids of images whose picture is missing."""

    pixels: NDArray[np.uint8]
    records: list[Record]
    missing: list[str]


def read_grey_image(collection: Collection, record: Record, side: int, pixels: int) -> Picture | None:
    """Read a picture from the file of an image, or else from its thumbnail.

    Parameters
    ----------
    collection : Collection
    record : Record
    side : int
        Side length of the picture in pixels.
    pixels : int
        Maximum number of pixels in a file.

    Returns
    -------
    (side, side) uint8 or None
        None without file and thumbnail; a file whose content has changed does not count.
    """
    image = read_stored_image(collection, record, pixels)
    return None if image is None else pad_resize(image, side)


def read_stored_image(collection: Collection, record: Record, pixels: int) -> Image | None:
    """Read an image of `collection` from its file of at most so many `pixels`, or else from its thumbnail.

    Returns None without file and thumbnail; a file whose content has changed does not count.
    """
    image = _from_file(collection, record, pixels)
    if image is None and (thumbnail := collection.thumbnail(record.image_id)):
        image = next(iter(decode(thumbnail)))
    return image


def read_grey_images(
    collection: Collection,
    side: int,
    where: Sequence[Condition] = (),
    keep: Callable[[Record], bool] = lambda record: True,
    show: Show = lambda done, total: None,
) -> GreyImages:
    """Read the pictures of matching images, in parallel.

    Parameters
    ----------
    collection : Collection
    side : int
        Side length of the pictures in pixels.
    where : sequence of Condition
        Conditions on the images.
    keep : callable
        Further condition on the record.
    show : callable
        Progress callback with done and total.

    Returns
    -------
    GreyImages

    Raises
    ------
    InvalidInput
        If there are images but none has a picture.
    """
    records: list[Record] = []
    after = 0
    while page := collection.page(after, 2000, where):
        records += [record for _, record in page if keep(record)]
        after = page[-1][0]
    max_pixels = settings.load().max_pixels
    pixels = np.zeros((len(records), side, side), np.uint8)
    readable = np.zeros(len(records), bool)
    with ThreadPoolExecutor(cores()) as executor:
        pictures = executor.map(lambda record: read_grey_image(collection, record, side, max_pixels), records)
        for row, picture in enumerate(pictures):
            show(row + 1, len(records))
            if picture is not None:
                pixels[row], readable[row] = picture, True
    if records and not readable.any():
        raise InvalidInput(
            f"none of {len(records)} images has a picture: their files were moved or deleted, and there are no "
            "thumbnails; restore the files, or index them at their new path"
        )
    missing = [record.image_id for record in compress(records, ~readable)]
    return GreyImages(pixels[readable], list(compress(records, readable)), missing)


def _from_file(collection: Collection, record: Record, pixels: int) -> Image | None:
    path = originals.original_path(collection.folder, record.source) or Path(record.source)
    if not path.is_file():
        return None
    try:
        image = select_frame(read_images(path, limits=Limits(pixels=pixels)), record.frame, "the file")
    except CbirError:
        return None
    return image if image.content_hash == record.content_hash else None
