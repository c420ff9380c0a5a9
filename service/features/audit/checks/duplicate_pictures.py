"""Pictures of a collection as small squares, which duplicates are proved with."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.errors import CbirError
from cbir.images import Image, decode
from cbir.learn.severity.stored_images import read_stored_image
from cbir.store import Collection, Record

SIDE = 64  # of the squares that are kept in memory
FINE = 128  # of those that decide
BLANK = 2.0  # grey levels of standard deviation: a picture with less shows nothing
KEPT = 2000  # fine squares

Picture = NDArray[np.uint8]


class PictureReader:
    """Reads pictures from thumbnails, which are smaller, or else from files of at most `max_pixels`."""

    def __init__(self, collection: Collection, max_pixels: int) -> None:
        self.collection, self.max_pixels = collection, max_pixels
        self._with_thumbnail = collection.ids_with_thumbnail()

    def square(self, record: Record, side: int = SIDE) -> Picture | None:
        """Return the picture of a record, stretched; None if it cannot be read."""
        image = self._read(record)
        return None if image is None else to_square(image.grey, side)

    def _read(self, record: Record) -> Image | None:
        try:
            has_thumbnail = record.image_id in self._with_thumbnail
            if has_thumbnail and (thumbnail := self.collection.thumbnail(record.image_id)):
                return next(iter(decode(thumbnail)))
        except CbirError:
            pass
        try:
            return read_stored_image(self.collection, record, self.max_pixels)
        except CbirError:
            return None


class Squares(NamedTuple):
    """Pictures of n images, stretched to squares.

    numbers: (n,) int64, of the images. sizes: (n,) int64, their longer sides in pixels. pixels: (n, 64, 64) uint8.
    """

    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]
    pixels: NDArray[np.uint8]

    def of(self, rows: NDArray[np.int64]) -> "Squares":
        """Return those of some rows."""
        return Squares._make(values[rows] for values in self)


class Pictures:
    """Squares, and larger ones, which are read when they are needed.

    Parameters
    ----------
    reader : PictureReader
    squares : Squares
    records : mapping of int to Record
        By number; those of deleted images may be missing.
    """

    def __init__(self, reader: PictureReader, squares: Squares, records: Mapping[int, Record]) -> None:
        self.squares, self._reader, self._records = squares, reader, records
        self.fine = lru_cache(KEPT)(self._fine)

    def fine_side(self, first: int, second: int) -> int:
        """Return the side of the squares that two rows are compared by: the smaller's size, but 64 to 128."""
        return min(max(self.common_size(first, second), SIDE), FINE)

    def common_size(self, first: int, second: int) -> int:
        """Return the longer side of the smaller of two rows."""
        return max(int(min(self.squares.sizes[first], self.squares.sizes[second])), 1)

    def _fine(self, row: int, side: int) -> Picture:
        record = self._records.get(int(self.squares.numbers[row])) if side > SIDE else None
        square = self._reader.square(record, side) if record else None
        return to_square(self.squares.pixels[row], side) if square is None else square


def to_square(grey: Picture, side: int) -> Picture:
    """Stretch grey pixels (height, width) to a square."""
    method = cv2.INTER_AREA if max(grey.shape) > side else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(grey, (side, side), interpolation=method), np.uint8)
