"""Familiarity of images to a collection: the p-value of being as strange as they are, by two distances.

The directions that searches compare tell the images of a collection apart, and know nothing of other kinds: what is
unusual about an image of another anatomy is projected away. So images are compared by all values too, as they are and
centred, and a distance counts for more among neighbours that are near each other. One p-value for all of it keeps
false alarms as rare as it says.
"""

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Floats

NEIGHBOURS = 5
USUAL = 0.99  # of the images of the collection are less strange than 1
SMALLEST = 3e-3  # distance of vectors of length 1; copies have none but for rounding
ROUNDING = 1e-3  # of the strangeness

Numbers = NDArray[np.float64]


class Familiarity:
    """Compares vectors with n of a collection.

    Parameters
    ----------
    vectors : (n, d) float32
        Raw values of the encoder; n > NEIGHBOURS.
    nearest : (n,) float32
        Distance of each to its nearest other in searches; infinite if all others are copies.
    """

    def __init__(self, vectors: Floats, nearest: Floats) -> None:
        self._units = _unit(vectors)
        self._mean = self._units.mean(axis=0)
        self._products = self._units @ self._mean
        self._square = float(self._mean @ self._mean)
        self._lengths = np.sqrt(np.maximum(1 - 2 * self._products + self._square, SMALLEST))
        spaces = self._distances(self._units)
        for space in spaces:
            np.fill_diagonal(space, np.inf)
        nearest_in_spaces = [_nearest(space) for space in spaces]
        self._spreads = [distances[:, -1] for _, distances in nearest_in_spaces]
        logs = [self._log_ratios(space, *near) for space, near in enumerate(nearest_in_spaces)]
        logs.append(_log(np.where(np.isfinite(nearest), nearest, 0)))
        self._scales = [(np.median(log), np.quantile(log, USUAL)) for log in logs]
        self._ascending = np.sort(self._strangeness(logs))

    def familiarity(self, vectors: Floats, nearest: Floats) -> Numbers:
        """Return the share (m,) of images of the collection that are at least as strange, from 1 / (n + 1) to 1.

        vectors: (m, d) float32, raw values of the encoder. nearest: (m,) float32, distances in searches to the
        nearest image of the collection. It is the p-value of a conformal anomaly detector (Laxhammar & Falkman 2010).
        """
        spaces = self._distances(_unit(vectors))
        logs = [self._log_ratios(space, *_nearest(distances)) for space, distances in enumerate(spaces)]
        logs.append(_log(nearest))
        count = len(self._ascending)
        at_least = count - np.searchsorted(self._ascending, self._strangeness(logs) - ROUNDING)
        return np.asarray((1 + at_least) / (1 + count), np.float64)

    def _distances(self, units: Floats) -> list[Floats]:
        """Return the distances (m, n) of units (m, d) to those of the collection: as they are, and centred."""
        products = units @ self._units.T
        to_mean = units @ self._mean
        lengths = np.sqrt(np.maximum(1 - 2 * to_mean + self._square, SMALLEST))
        centred = products - to_mean[:, None] - self._products + self._square
        centred /= lengths[:, None] * self._lengths
        return [np.sqrt(np.maximum(2 - 2 * cosines, 0)) for cosines in (products, centred)]

    def _log_ratios(self, space: int, rows: NDArray[np.int64], distances: Floats) -> Numbers:
        """Return the logarithm (m,) of the last distance over the root of that of the neighbours."""
        spread = np.maximum(self._spreads[space][rows].mean(axis=1, dtype=np.float64), SMALLEST)
        return np.asarray(_log(distances[:, -1]) - np.log(spread) / 2)

    def _strangeness(self, logs: list[Numbers]) -> Numbers:
        """Return the largest of the logarithms (m,); 0 is the median of the collection, and 1 its 99th percentile."""
        scaled = [
            (log - middle) / max(usual - middle, SMALLEST)
            for log, (middle, usual) in zip(logs, self._scales, strict=True)
        ]
        return np.asarray(np.max(scaled, axis=0))


def _log(distances: Floats) -> Numbers:
    return np.log(np.maximum(distances.astype(np.float64), SMALLEST))


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, SMALLEST), np.float32)


def _nearest(distances: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the columns (m, NEIGHBOURS) of the smallest distances, and these ascending."""
    rows = np.argpartition(distances, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS]
    near = np.take_along_axis(distances, rows, axis=1)
    return rows, np.sort(near, axis=1)
