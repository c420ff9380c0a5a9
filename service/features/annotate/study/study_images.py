"""Cache of a collection's images at the input size of a ranker."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.learn.severity.stored_images import read_grey_image
from cbir.store import Collection
from service.features.annotate.study.study_files import read_arrays, write_arrays

Pictures = NDArray[np.uint8]


def read_study_images(
    collection: Collection, ids: Sequence[str], side: int, cache: Path, stop: Callable[[], bool]
) -> tuple[list[str], Pictures]:
    """Read images of a collection, from the cache or their files.

    Parameters
    ----------
    collection : Collection
    ids : sequence of str
        Ids of the images to read.
    side : int
        Side length in pixels.
    cache : Path
        File for the next call; images that are not in `ids` are removed from it.
    stop : callable
        Checked before each image; once it returns True, reading ends and the cache is not written.

    Returns
    -------
    list of str
        Ids of the images that could be read.
    (n, side, side) uint8
        Their pixels.
    """
    cached = _read_cache(cache, side)
    records = {record.image_id: record for _, record in collection.iterate()}
    max_pixels = settings.load().max_pixels
    images: dict[str, Pictures] = {}
    for image_id in ids:
        if stop():
            break
        if image_id in cached:
            images[image_id] = cached[image_id]
        elif image_id in records:
            image = read_grey_image(collection, records[image_id], side, max_pixels)
            if image is not None:
                images[image_id] = image
    stack = np.stack(list(images.values())) if images else np.empty((0, side, side), np.uint8)
    if images.keys() != cached.keys() and not stop():
        write_arrays(cache, ids=np.array(list(images), str), pictures=stack)
    return list(images), stack


def _read_cache(path: Path, side: int) -> dict[str, Pictures]:
    try:
        arrays = read_arrays(path)
        ids, pictures = arrays["ids"].tolist(), arrays["pictures"]
    except (ValueError, KeyError):
        return {}  # missing or damaged
    fits = pictures.dtype == np.uint8 and pictures.shape == (len(ids), side, side)
    return dict(zip(ids, pictures, strict=True)) if fits else {}
