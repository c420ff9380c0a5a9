"""Collection images as grey pictures of one size."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.errors import CbirError
from cbir.images import Image, Limits, decode
from cbir.images.scaling import pad_resize
from cbir.ingest.object_store import read_images_at
from cbir.learn.severity.stored_images import Show, StoredImages, matching_records, read_images_of
from cbir.search import select_frame
from cbir.store import Collection, Record
from cbir.store.records import originals
from cbir.store.records.filter_conditions import Condition

Picture = NDArray[np.uint8]


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
) -> StoredImages:
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
    StoredImages
        Pictures (n, side, side) uint8.

    Raises
    ------
    InvalidInput
        If there are images but none has a picture.
    """
    max_pixels = settings.load().max_pixels
    records = [record for _, record in matching_records(collection, where, keep)]
    return read_images_of(
        records,
        lambda record: read_grey_image(collection, record, side, max_pixels),
        (side, side),
        np.uint8,
        show,
    )


def _from_file(collection: Collection, record: Record, pixels: int) -> Image | None:
    source = str(originals.original_path(collection.folder, record.source) or record.source)
    try:
        image = select_frame(read_images_at(source, Limits(pixels=pixels)), record.frame, "the file")
    except CbirError:
        return None
    return image if image.content_hash == record.content_hash else None
