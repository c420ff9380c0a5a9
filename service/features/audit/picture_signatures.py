"""Signatures of pictures: low frequencies, also rotated and enlarged, and detail without contrast."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats
from cbir.store import Record
from service.features.audit.duplicate_pictures import (
    BLANK,
    Picture,
    PictureReader,
    PictureWorkers,
    Squares,
    to_square,
)
from service.features.audit.duplicate_pictures import SIDE as SQUARE

SIDE = 32
FREQUENCIES = 9  # in each direction
EDGE = 4  # pixels over which the circle that counts fades out
WINDOW = 5  # pixels over which detail is normalised
SMOOTHING = 1.0  # pixels of standard deviation
ROUNDING = 1e-3  # length of the frequencies of a picture that shows nothing, at most
NOISE = 2.0  # grey levels of standard deviation that are no detail
STEPS = 40  # of int8 for one standard deviation of detail
Degrees = float
Zoom = float
# How a picture is placed before it is compared: as it is, rotated (4 degrees more or less change little), cropped.
PLACINGS: list[tuple[Degrees, Zoom]] = [(0, 1), (-7, 1), (7, 1), (-14, 1), (14, 1), (0, 1.1)]
ENLARGED = len(PLACINGS) - 1
_COSINES = np.ascontiguousarray(
    cv2.dct(np.eye(SIDE, dtype=np.float32), flags=cv2.DCT_ROWS)[:, :FREQUENCIES].T
)
TOGETHER = 250  # images that a thread or process reads one after the other


class Signatures(NamedTuple):
    """Signatures of n pictures.

    frequencies: (n, placings, 80) float32, see `low_frequencies`. detail: (n, 32, 32) int8.
    """

    frequencies: Floats
    detail: NDArray[np.int8]


class Orientation(NamedTuple):
    """Flips and inversion of a picture."""

    flipped: bool
    upside_down: bool
    inverted: bool

    def apply(self, picture: Picture) -> Picture:
        """Return the changed picture."""
        picture = picture[:, ::-1] if self.flipped else picture
        picture = picture[::-1] if self.upside_down else picture
        return np.ascontiguousarray(255 - picture if self.inverted else picture)

    def apply_signed(self, detail: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return changed detail (..., s, s), which an inversion gives the other sign."""
        detail = detail[..., ::-1] if self.flipped else detail
        detail = detail[..., ::-1, :] if self.upside_down else detail
        return -detail if self.inverted else detail


ORIENTATIONS = [
    Orientation(flipped, upside_down, inverted)
    for flipped in (False, True)
    for upside_down in (False, True)
    for inverted in (False, True)
]


def placing(number: int, side: int) -> Floats:
    """Return the map (2, 3) of the pixels of a square with this side to where a placing puts them."""
    middle = (side - 1) / 2
    return np.asarray(cv2.getRotationMatrix2D((middle, middle), *PLACINGS[number]), np.float32)


def _circle() -> Floats:
    """Return a circle (32, 32) that fades out: what a rotation brings in from outside does not count."""
    down, across = np.indices((SIDE, SIDE)) - (SIDE - 1) / 2
    inside = np.clip((SIDE / 2 - np.hypot(down, across)) / EDGE, 0, 1)
    return np.asarray(inside * inside * (3 - 2 * inside), np.float32)


CIRCLE = _circle()

_WHOLE = (CIRCLE > 0).astype(np.uint8)

_FLAT_CIRCLE = CIRCLE.ravel()

_MEAN = _FLAT_CIRCLE / CIRCLE.sum()

_PLACED = [placing(number, SIDE) for number in range(len(PLACINGS))]


def low_frequencies(picture: Picture) -> Floats:
    """Return the lowest frequencies (placings, 80) of a picture with equalised histogram, each of length 1.

    A flip changes the sign of the odd frequencies of one direction, an inversion that of all: their absolute values
    stay.
    """
    small = to_square(picture, SIDE)
    counts = np.asarray(cv2.calcHist([small], [0], _WHOLE, [256], [0, 256]), np.float32).ravel()
    ranks = (np.cumsum(counts) - counts / 2) / counts.sum()
    placed = np.empty((len(PLACINGS), SIDE, SIDE), np.float32)
    placed[0] = ranks[small]
    for transform, square in zip(_PLACED[1:], placed[1:], strict=True):
        cv2.warpAffine(placed[0], transform, (SIDE, SIDE), dst=square, borderMode=cv2.BORDER_REPLICATE)
    flat = placed.reshape(len(placed), -1)
    flat -= (flat @ _MEAN)[:, None]
    flat *= _FLAT_CIRCLE
    lowest = (_COSINES @ placed @ _COSINES.T).reshape(len(placed), -1)[:, 1:]
    lengths = np.linalg.norm(lowest, axis=1, keepdims=True)
    return np.where(lengths > ROUNDING, lowest / np.maximum(lengths, ROUNDING), np.float32(0))


def orientation_signs() -> Floats:
    """Return the signs (orientations, 80) that an orientation gives the frequencies."""
    down, across = np.indices((FREQUENCIES, FREQUENCIES)).reshape(2, -1)[:, 1:]
    return np.array(
        [
            (-1.0) ** (across * turned.flipped + down * turned.upside_down + turned.inverted)
            for turned in ORIENTATIONS
        ],
        np.float32,
    )


def normalised_detail(picture: Picture) -> NDArray[np.int8]:
    """Return a small picture (32, 32) less the mean of each window, divided by its standard deviation."""
    small = cv2.GaussianBlur(to_square(picture, SIDE).astype(np.float32), (0, 0), SMOOTHING)
    mean = cv2.blur(small, (WINDOW, WINDOW))
    variance = np.maximum(cv2.blur(small * small, (WINDOW, WINDOW)) - mean * mean, 0)
    return np.asarray(np.clip((small - mean) / np.sqrt(variance + NOISE**2) * STEPS, -127, 127), np.int8)


def empty_signatures(count: int) -> Signatures:
    """Return signatures of so many pictures, to be filled."""
    return Signatures(
        np.empty((count, len(PLACINGS), FREQUENCIES**2 - 1), np.float32),
        np.empty((count, SIDE, SIDE), np.int8),
    )


def sign_pictures(squares: Sequence[Picture] | NDArray[np.uint8]) -> Signatures:
    """Return the signatures of pictures (n, s, s)."""
    signatures = empty_signatures(len(squares))
    for row, square in enumerate(squares):
        signatures.frequencies[row], signatures.detail[row] = (
            low_frequencies(square),
            normalised_detail(square),
        )
    return signatures


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
        Squares(numbers, sizes, np.empty((count, SQUARE, SQUARE), np.uint8)),
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
    pixels, readable = np.zeros((len(numbers), SQUARE, SQUARE), np.uint8), np.zeros(len(numbers), bool)
    for row, number in enumerate(numbers.tolist()):
        record = records.get(number)  # None if it has just been deleted
        square = None if record is None else reader.square(record)
        if square is not None:
            pixels[row], readable[row] = square, True
    signatures = sign_pictures(pixels)
    signatures.frequencies[[square.std() < BLANK for square in pixels]] = 0
    return pixels, readable, signatures
