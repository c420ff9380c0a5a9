"""Images of a collection, read in parallel as the inputs of a ranker."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cbir.errors import InvalidInput
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import Condition
from cbir.system.threads import cores

PAGE = 2000  # records read at a time

Show = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class StoredImages:
    """Images with their records, and the ids of images that could not be read.

    inputs: pictures (n, side, side) uint8 or values (n, d) float32.
    """

    inputs: NDArray[Any]
    records: list[Record]
    missing: list[str]


def matching_records(
    collection: Collection,
    where: Sequence[Condition],
    keep: Callable[[Record], bool] = lambda record: True,
) -> list[tuple[int, Record]]:
    """Return number and record of the images that meet the conditions `where` and that `keep` accepts."""
    matching: list[tuple[int, Record]] = []
    after = 0
    while page := collection.page(after, PAGE, where):
        matching += [(number, record) for number, record in page if keep(record)]
        after = page[-1][0]
    return matching


def read_images_of(
    records: Sequence[Record],
    read: Callable[[Record], NDArray[Any] | None],
    shape: tuple[int, ...],
    dtype: DTypeLike,
    show: Show,
) -> StoredImages:
    """Read images on all cores.

    Parameters
    ----------
    records : sequence of Record
        Images to read.
    read : callable
        Returns the input of one image, of this shape; None without file and thumbnail.
    shape : tuple of int
        Of one input.
    dtype : dtype
        Of the inputs.
    show : callable
        Progress callback with done and total.

    Raises
    ------
    InvalidInput
        If there are records but no image can be read.
    """
    inputs = np.zeros((len(records), *shape), dtype)
    readable = np.zeros(len(records), bool)
    with ThreadPoolExecutor(cores()) as executor:
        for row, values in enumerate(executor.map(read, records)):
            show(row + 1, len(records))
            if values is not None:
                inputs[row], readable[row] = values, True
    if records and not readable.any():
        raise InvalidInput(
            f"none of {len(records)} images has a picture: their files were moved or deleted, and there are no "
            "thumbnails; restore the files, or index them at their new path"
        )
    missing = [record.image_id for record in compress(records, ~readable)]
    return StoredImages(inputs[readable], list(compress(records, readable)), missing)
