"""Refusal of images that are unlike the graded ones."""

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from cbir.errors import InvalidInput

FEWEST_IMAGES = 100  # with fewer, the range is not known
REFERENCES = 5000  # images, at most
SAMPLE = 500  # images whose distances give the limit, at most
SHARE = 0.99  # of graded images that are within the limit


class TrainingRange(NamedTuple):
    """Graded images, and the distance to the nearest one that few of them exceed.

    Attributes
    ----------
    rows : (m,) int64
        Rows of the graded images that serve as references.
    values : (m, d) float32
        Their standardised features.
    limit : float
        The 99th percentile of the distance of a graded image to the nearest one of another patient.
    """

    rows: NDArray[np.int64]
    values: NDArray[np.float32]
    limit: float

    def check(self, values: NDArray[np.float32], keep: NDArray[np.bool_]) -> None:
        """Raise InvalidInput if an image is farther from the graded images than the limit.

        Parameters
        ----------
        values : (d,) float32
            Its standardised features.
        keep : (n,) bool
            Graded images that it may be compared with.
        """
        others = self.values[keep[self.rows]]
        if not len(others):
            return
        distance = float(euclidean_distances(values[None], others).min())
        if distance > self.limit:
            raise InvalidInput(
                f"no grade: the image is unlike the graded ones. Its distance to the nearest is {distance:.1f}; "
                f"{SHARE:.0%} of the graded images are within {self.limit:.1f} of one of another patient"
            )


def fit_training_range(values: NDArray[np.float32], patients: NDArray[np.str_]) -> TrainingRange | None:
    """Measure the distances between graded images.

    Parameters
    ----------
    values : (n, d) float32
        Standardised features.
    patients : (n,) str
        Patient of each.

    Returns
    -------
    TrainingRange or None
        None if there are fewer than 100 images, or those of one patient only.
    """
    order = np.random.default_rng(0).permutation(len(values))
    rows = np.sort(order[:REFERENCES])
    sample = np.sort(order[:SAMPLE])
    distances = cast(NDArray[np.float32], euclidean_distances(values[sample], values[rows]))
    distances[patients[sample][:, None] == patients[rows]] = np.inf
    nearest = distances.min(axis=1, initial=np.inf)
    nearest = nearest[np.isfinite(nearest)]
    if len(values) < FEWEST_IMAGES or not len(nearest):
        return None
    return TrainingRange(rows, values[rows], float(np.quantile(nearest, SHARE)))
