"""Images unlike the rest of a collection."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.features.audit.checks.independent_neighbours import IndependentNeighbours

NEIGHBOUR = 5  # an image is as far away as its fifth nearest: some images of a rare kind are no outliers yet
FENCE = 3.0  # standard deviations of the logarithm of the distances, told from their median deviation
DEVIATION = 1.4826  # standard deviations of a normal distribution in one median deviation
SMALLEST = 1e-6  # distance; a copy is at 0


@dataclass(frozen=True, eq=False)
class Outliers:
    """Images whose neighbours are far away, the furthest first.

    rows: (m,) rows of the images. distance: (n,) of every image to its fifth nearest, one minus the cosine.
    likeness: (n,) share of the images that are at least as far from their neighbours.
    """

    rows: NDArray[np.int64]
    distance: NDArray[np.float64]
    likeness: NDArray[np.float64]


def find_outliers(nearest: IndependentNeighbours) -> Outliers:
    """Find images that are further from their neighbours than nearly all others; none in a collection of a few."""
    count = len(nearest.rows)
    columns = nearest.distances[:, :NEIGHBOUR]
    finite = np.where(np.isfinite(columns), columns, -1.0)
    distance = finite.max(axis=1, initial=-1.0).astype(np.float64)  # of the furthest there is, for few images
    has_neighbours = distance >= 0
    distance[~has_neighbours] = 0.0
    ascending = np.sort(distance)
    likeness = (count - np.searchsorted(ascending, distance, side="left")) / max(count, 1)
    if count <= NEIGHBOUR:
        return Outliers(np.empty(0, np.int64), distance, likeness)
    logs = np.log(np.maximum(distance, SMALLEST))
    middle = np.median(logs[has_neighbours]) if has_neighbours.any() else 0.0
    spread = DEVIATION * np.median(np.abs(logs[has_neighbours] - middle)) if has_neighbours.any() else 0.0
    far = np.flatnonzero(has_neighbours & (logs > middle + max(FENCE * spread, SMALLEST)))
    return Outliers(far[np.argsort(-distance[far], kind="stable")], distance, likeness)
