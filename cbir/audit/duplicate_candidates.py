"""Pairs of images that may be duplicates: near by vector, or by the low frequencies of their pictures."""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from cbir.audit.duplicate_pictures import Picture, to_square
from cbir.gallery.knn import find_neighbours
from cbir.gallery.vector_blocks import Floats
from cbir.gallery.whitening import Space, plain_space

SIDE = 32
FREQUENCIES = 9  # in each direction
NEAREST = 5  # by vector, of the eight that are found
LEAST_BY_VECTOR = 0.4  # likeness of the low frequencies in the best orientation
LEAST_BY_PICTURE = 0.9
TRIED_BY_VECTOR = 2  # orientations: rotated, a symmetric picture may look more like its mirror image
NEARLY = 0.12  # likeness that the second orientation may lack

BLOCK = 65_536  # pairs

Rows = NDArray[np.int64]


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


ORIENTATIONS = [
    Orientation(flipped, upside_down, inverted)
    for flipped in (False, True)
    for upside_down in (False, True)
    for inverted in (False, True)
]


class Candidates(NamedTuple):
    """Pairs, and how the second of each is to be turned.

    pairs: (p, 2) rows, the first the smaller; one may be there twice. orientation: (p,) index into ORIENTATIONS.
    by_vector: (p,) bool, pairs that may be rotated or cropped; the others are alike where they are.
    """

    pairs: Rows
    orientation: Rows
    by_vector: NDArray[np.bool_]


def low_frequencies(picture: Picture) -> Floats:
    """Return the lowest frequencies (80,) of a picture with equalised histogram, of length 1.

    A flip changes the sign of the odd frequencies of one direction, an inversion that of all: their absolute values
    stay.
    """
    small = cv2.equalizeHist(to_square(picture, SIDE)).astype(np.float32)
    values = cv2.dct(small)[:FREQUENCIES, :FREQUENCIES].ravel()[1:]
    return np.asarray(values / max(float(np.linalg.norm(values)), 1e-6), np.float32)


def _signs() -> Floats:
    """Return the signs (orientations, 80) that an orientation gives the frequencies."""
    down, across = np.indices((FREQUENCIES, FREQUENCIES)).reshape(2, -1)[:, 1:]
    return np.array(
        [
            (-1.0) ** (across * turned.flipped + down * turned.upside_down + turned.inverted)
            for turned in ORIENTATIONS
        ],
        np.float32,
    )


def find_candidate_pairs(vectors: Floats, space: Space, frequencies: Floats) -> Candidates:
    """Find pairs of n images that may be duplicates, each in its one or two most likely orientations.

    Parameters
    ----------
    vectors : (n, d) float32
        Normalised vectors.
    space : Space
        Space that they are compared in.
    frequencies : (n, 80) float32
        Low frequencies of their pictures.
    """
    by_vector = _pairs(find_neighbours(vectors, space).rows[:, :NEAREST])
    plain = plain_space(frequencies.shape[1])
    by_picture = _pairs(find_neighbours(np.abs(frequencies), plain).rows)
    near = _oriented(by_vector, frequencies, LEAST_BY_VECTOR, TRIED_BY_VECTOR)
    rows = np.concatenate([near, _oriented(by_picture, frequencies, LEAST_BY_PICTURE, 1)])
    key = (rows[:, 0] * len(vectors) + rows[:, 1]) * len(ORIENTATIONS) + rows[:, 2]
    order = np.argsort(key, kind="stable")  # a pair found both ways is there by vector first
    order = order[np.diff(key[order], prepend=-1) > 0]
    return Candidates(rows[order, :2], rows[order, 2], order < len(near))


def _pairs(neighbours: NDArray[np.int32]) -> Rows:
    """Return each pair (p, 2) of a row and a neighbour once, the smaller first."""
    first = np.repeat(np.arange(len(neighbours)), neighbours.shape[1])
    second = neighbours.ravel().astype(np.int64)
    pairs = np.column_stack([first, second])[second >= 0]
    pairs.sort(axis=1)
    return np.unique(pairs, axis=0)


def _oriented(pairs: Rows, frequencies: Floats, least: float, tried: int) -> Rows:
    """Return pairs and orientation (m, 3) in which they are alike: the best of each pair, and nearly as good ones."""
    signs = _signs().T
    oriented = [np.empty((0, 3), np.int64)]
    for start in range(0, len(pairs), BLOCK):
        block = pairs[start : start + BLOCK]
        alike = (frequencies[block[:, 0]] * frequencies[block[:, 1]]) @ signs
        best = np.argsort(-alike, axis=1)[:, :tried]
        likeness = np.take_along_axis(alike, best, axis=1)
        row, order = np.nonzero(likeness >= np.maximum(least, likeness[:, :1] - NEARLY))
        oriented.append(np.column_stack([block[row], best[row, order]]))
    return np.concatenate(oriented)
