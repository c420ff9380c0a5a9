"""Familiarity of images to a collection: the p-value of being as strange as they are.

Strangeness is the mean of two distances, by all values of the encoder and by its maxima alone: the first sees other
anatomies, the second what is no medical image at all. One p-value for both keeps false alarms as rare as it says.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors.encoders.encoder_card import EncoderOutput
from cbir.gallery.vector_blocks import Floats, Rows
from cbir.ingest.checks.neighbour_space import NEIGHBOURS, NeighbourSpace, _unit

DIRECTIONS, DIRECTIONS_OF_MAXIMA = 64, 256
USUAL = 0.99  # of the images of the collection are less strange than 1
LEAST_DIFFERENCE = 1e-3  # difference between a usual image and the median, and length of a vector
ROUNDING = 1e-3  # of the strangeness
TAIL = 25  # strangest images of the collection, which say how rare stranger ones are
LEAST_FAMILIAR = 10 * TAIL  # images of a collection: its strangest tenth is the tail

Numbers = NDArray[np.float64]


def columns_of_maxima(outputs: Sequence[EncoderOutput]) -> slice:
    """Return the columns of the maxima in the vectors of an encoder, which come last; empty if there are none."""
    count = sum(output.dimensions for output in outputs)
    first = count
    for output in reversed(outputs):
        if output.pooling != "max":
            break
        first -= output.dimensions
    return slice(first, count)


class Familiarity:
    """Compares vectors with n of a collection.

    Parameters
    ----------
    vectors : (n, d) float32
        Raw values of the encoder; n > 3.
    patients : (n,) int64
        Numbers of the patients: images of one are not compared with each other, unless there are too few patients.
    maxima : slice
        Columns that are maxima.
    """

    def __init__(self, vectors: Floats, patients: Rows, maxima: slice) -> None:
        if len(vectors) - np.unique(patients, return_counts=True)[1].max() < NEIGHBOURS:
            patients = np.arange(len(vectors))
        self._columns = [slice(0, vectors.shape[1])]
        self._spaces = [NeighbourSpace(_unit(vectors, LEAST_DIFFERENCE), patients, DIRECTIONS)]
        if maxima.start < maxima.stop:
            self._columns.append(maxima)
            self._spaces.append(
                NeighbourSpace(_unit(vectors[:, maxima], LEAST_DIFFERENCE), patients, DIRECTIONS_OF_MAXIMA)
            )
        logs = [space.logs for space in self._spaces]
        self._scales = [(np.median(log), np.quantile(log, USUAL)) for log in logs]
        self._ascending = np.sort(self._strangeness(logs))

    def familiarity(self, vectors: Floats) -> Numbers:
        """Return the share (m,) of images like those of the collection that are at least as strange, up to 1.

        vectors: (m, d) float32, raw values of the encoder. The smaller of two p-values: that of a conformal anomaly
        detector (Laxhammar & Falkman 2010), which a small collection lets become no smaller than 1 / (n + 1), and one
        by its 25 strangest images: how often a distance is exceeded falls with a power of it (Hill 1975), and
        strangeness is its logarithm.
        """
        logs = [
            space(_unit(vectors[:, columns], LEAST_DIFFERENCE))
            for space, columns in zip(self._spaces, self._columns, strict=True)
        ]
        strangeness, count = self._strangeness(logs), len(self._ascending)
        at_least = count - np.searchsorted(self._ascending, strangeness - ROUNDING)
        counted = (1 + at_least) / (1 + count)
        tail = min(TAIL, count - 1)
        beyond = strangeness - ROUNDING - self._ascending[-1 - tail]
        usual = max(float((self._ascending[-tail:] - self._ascending[-1 - tail]).mean()), ROUNDING)
        extrapolated = tail / count * np.exp(-np.maximum(beyond, 0) / usual)
        return np.where(beyond > 0, np.minimum(counted, extrapolated), counted).astype(np.float64)

    def _strangeness(self, logs: list[Numbers]) -> Numbers:
        """Return the mean of the logarithms (m,); 0 is the median of the collection, and 1 its 99th percentile."""
        scaled = [
            (log - middle) / max(usual - middle, LEAST_DIFFERENCE)
            for log, (middle, usual) in zip(logs, self._scales, strict=True)
        ]
        return np.asarray(np.mean(scaled, axis=0))
