"""Pictures of a collection as small squares, which duplicates are proved with."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.cancellation import checkpoint
from cbir.errors import CbirError
from cbir.images import Image, decode
from cbir.severity.grey_images import read_stored_image
from cbir.store import Collection, Record
from cbir.threads import cores

SIDE = 64  # of the squares that are kept in memory
FINE = 128  # of those that decide
BLANK = 2.0  # grey levels of standard deviation: a picture with less shows nothing
AT_ONCE = 500  # records
KEPT = 2000  # fine squares

Picture = NDArray[np.uint8]


class Pictures:
    """Pictures of records, stretched to squares.

    squares: (n, 64, 64) uint8. readable, shown: (n,) bool: there is a picture, and it shows something.
    """

    def __init__(
        self, collection: Collection, records: Sequence[Record], progress: Callable[[int, int], None]
    ) -> None:
        """Read the pictures of `records`, which belong to `collection`; `progress` gets done and total."""
        self._collection, self._records = collection, records
        self._most = settings.load().max_pixels
        self._with_thumbnail = collection.ids_with_thumbnail()
        self.squares = np.zeros((len(records), SIDE, SIDE), np.uint8)
        self.readable = np.zeros(len(records), bool)
        with ThreadPoolExecutor(cores()) as executor:
            for start in range(0, len(records), AT_ONCE):
                checkpoint()
                squares = executor.map(self._square, records[start : start + AT_ONCE])
                for row, square in enumerate(squares, start):
                    if square is not None:
                        self.squares[row], self.readable[row] = square, True
                progress(min(start + AT_ONCE, len(records)), len(records))
        self.shown = np.array([bool(square.std() >= BLANK) for square in self.squares], bool)
        self.fine = lru_cache(KEPT)(self._fine)

    def fine_side(self, first: int, second: int) -> int:
        """Return the side of the squares that two rows are compared by: the smaller's size, but 64 to 128."""
        return min(max(self.common_size(first, second), SIDE), FINE)

    def common_size(self, first: int, second: int) -> int:
        """Return the longer side of the smaller of two rows."""
        return max(
            min(max(self._records[row].width, self._records[row].height) for row in (first, second)), 1
        )

    def _fine(self, row: int, side: int) -> Picture:
        square = None if side == SIDE else self._square(self._records[row], side)
        return to_square(self.squares[row], side) if square is None else square

    def _square(self, record: Record, side: int = SIDE) -> Picture | None:
        image = self._read(record)
        return None if image is None else to_square(image.grey, side)

    def _read(self, record: Record) -> Image | None:
        """Read the thumbnail, which is smaller, or else the file; None if neither can be read."""
        try:
            has_thumbnail = record.image_id in self._with_thumbnail
            if has_thumbnail and (thumbnail := self._collection.thumbnail(record.image_id)):
                return next(iter(decode(thumbnail)))
        except CbirError:
            pass
        try:
            return read_stored_image(self._collection, record, self._most)
        except CbirError:
            return None


def to_square(grey: Picture, side: int) -> Picture:
    """Stretch grey pixels (height, width) to a square."""
    method = cv2.INTER_AREA if max(grey.shape) > side else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(grey, (side, side), interpolation=method), np.uint8)
