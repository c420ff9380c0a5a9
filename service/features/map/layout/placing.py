"""Places on a map for images that it was not computed for, by their neighbours."""

from typing import Any

import numpy as np

from cbir.gallery.vector_blocks import Floats
from cbir.system.cancellation import checkpoint

SHARPNESS = 4  # power of the weights: a plain mean lies between clusters, where neither has images


def place_by_neighbours(weights: Any, positions: Floats) -> Floats:
    """Place the images of a k-NN graph that have no place at the weighted mean of their neighbours' positions.

    Images with a placed neighbour come first, then those that neighbour them.

    Parameters
    ----------
    weights : sparse matrix (n, n) float32
        Weights of the graph's edges.
    positions : (n, 2) float32
        Places; NaN for images that have none.

    Returns
    -------
    (n, 2) float32
        Places; NaN for images that no chain of neighbours joins with a placed one.
    """
    positions = positions.copy()
    waiting = np.flatnonzero(np.isnan(positions[:, 0]))
    while len(waiting):
        checkpoint()
        placed = ~np.isnan(positions[:, 0])
        edges = weights[waiting].power(SHARPNESS).multiply(placed[None, :]).tocsr()
        total = np.asarray(edges.sum(axis=1)).ravel()
        joined = total > 0
        if not joined.any():
            break
        means = edges[joined] @ np.nan_to_num(positions) / total[joined, None]
        positions[waiting[joined]] = means
        waiting = waiting[~joined]
    return positions


def place_among(positions: Floats) -> Floats | None:
    """Return the place (2,) of an image whose nearest neighbours have these `positions` (k, 2), NaN if unknown.

    The median of each coordinate, which one neighbour in another cluster does not move; None without any place.
    """
    finite = positions[~np.isnan(positions[:, 0])]
    return np.median(finite, axis=0).astype(np.float32) if len(finite) else None
