"""The images of a collection as small grey pictures of one size."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class GreyImages:
    """Images whose picture could be read, in the order they came.

    pixels: (n, side, side) uint8. records: n of them. missing: ids of the images without a picture.
    """

    pixels: NDArray[np.uint8]
    records: list[Record]
    missing: list[str]


def read_grey_image(
    collection: Collection, record: Record, side: int, pixels: int
) -> NDArray[np.uint8] | None:
    """(side, side) uint8 of one image, from its file or else from the thumbnail kept of it; None without either.

    pixels: that a file may have at most. A file that shows another picture by now does not count.
    """
    image = _from_file(collection, record, pixels)
    if image is None:
        small = collection.thumbnail(record.image_id)
        image = next(iter(decode(small))) if small else None
    return None if image is None else pad_resize(image, side)


def read_grey_images(
    collection: Collection,
    side: int,
    where: Sequence[Condition] = (),
    keep: Callable[[Record], bool] = lambda record: True,
    show: Show = lambda done, total: None,
) -> GreyImages:
    """Pictures of all images for which every condition and `keep` hold, on every core; side x side bytes each.

    Raises InvalidInput where there are images and none has a picture.
    """
    records: list[Record] = []
    after = 0
    while page := collection.page(after, 2000, where):
        records += [record for _, record in page if keep(record)]
        after = page[-1][0]
    most = settings.load().max_pixels
    pixels = np.zeros((len(records), side, side), np.uint8)
    there = np.zeros(len(records), bool)
    with ThreadPoolExecutor(cores()) as executor:
        found = executor.map(lambda record: read_grey_image(collection, record, side, most), records)
        for place, one in enumerate(found):
            show(place + 1, len(records))
            if one is not None:
                pixels[place], there[place] = one, True
    if records and not there.any():
        raise InvalidInput(
            f"none of {len(records)} images has a picture: their files are not where they were when they were "
            "indexed, and no thumbnails are kept; put the files back, or index them where they are now"
        )
    return GreyImages(
        pixels[there],
        [record for record, found in zip(records, there, strict=True) if found],
        [record.image_id for record, found in zip(records, there, strict=True) if not found],
    )


def _from_file(collection: Collection, record: Record, pixels: int) -> Image | None:
    path = originals.original_path(collection.folder, record.source) or Path(record.source)
    if not path.is_file():
        return None
    try:
        image = select_frame(read_images(path, limits=Limits(pixels=pixels)), record.frame, "the file")
    except CbirError:
        return None
    return image if image.content_hash == record.content_hash else None
