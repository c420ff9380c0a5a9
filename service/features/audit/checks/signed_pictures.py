"""Pictures of a collection, read and signed."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.store import Record
from service.features.audit.checks.duplicate_pictures import BLANK, SIDE, PictureReader, Squares
from service.features.audit.checks.picture_signatures import Signatures, empty_signatures, sign_pictures
from service.features.audit.checks.picture_workers import PictureWorkers

TOGETHER = 250  # images that a thread or process reads one after the other


class SignedPictures(NamedTuple):
    """Pictures of n images.

    squares: black where there is no picture. readable: (n,) bool, whether there is one. signatures: 0 where the
    picture shows nothing.
    """

    squares: Squares
    readable: NDArray[np.bool_]
    signatures: Signatures


def read_signed_pictures(
    workers: PictureWorkers, numbered: Sequence[tuple[int, Record]], progress: Callable[[int, int], None]
) -> SignedPictures:
    """Read and sign the pictures of images.

    Parameters
    ----------
    workers : PictureWorkers
    numbered : sequence of (int, Record)
        Images.
    progress : callable
        Called with done and total.
    """
    count = len(numbered)
    numbers = np.array([number for number, _ in numbered], np.int64)
    sizes = np.array([max(record.width, record.height) for _, record in numbered], np.int64)
    signed = SignedPictures(
        Squares(numbers, sizes, np.empty((count, SIDE, SIDE), np.uint8)),
        np.empty(count, bool),
        empty_signatures(count),
    )
    blocks = [slice(start, min(start + TOGETHER, count)) for start in range(0, count, TOGETHER)]
    for rows, (pixels, readable, signatures) in zip(
        blocks, workers.map(_read, (numbers[rows] for rows in blocks)), strict=True
    ):
        signed.squares.pixels[rows], signed.readable[rows] = pixels, readable
        signed.signatures.frequencies[rows], signed.signatures.detail[rows] = signatures
        progress(rows.stop, count)
    return signed


def _read(
    reader: PictureReader, numbers: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.bool_], Signatures]:
    """Return pixels (n, 64, 64) of images, whether they could be read, and their signatures."""
    records = reader.collection.records(numbers.tolist())
    pixels, readable = np.zeros((len(numbers), SIDE, SIDE), np.uint8), np.zeros(len(numbers), bool)
    for row, number in enumerate(numbers.tolist()):
        record = records.get(number)  # None if it has just been deleted
        square = None if record is None else reader.square(record)
        if square is not None:
            pixels[row], readable[row] = square, True
    signatures = sign_pictures(pixels)
    signatures.frequencies[[square.std() < BLANK for square in pixels]] = 0
    return pixels, readable, signatures
