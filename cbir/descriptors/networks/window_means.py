"""Means of overlapping windows of a map."""

import numpy as np
from numpy.typing import NDArray


def window_means(height: int, width: int, grid: int, window: float) -> NDArray[np.float32]:
    """Return weights that average a map over grid x grid evenly spaced windows.

    Parameters
    ----------
    height, width : int
        Of the map, in places.
    grid : int
        Windows per side, at least 1.
    window : float
        Length of a window as a share of the map's side, above 0 and at most 1.

    Returns
    -------
    (grid * grid, height * width) float32
        Each row is a window, from the top left: 1 / its places inside, 0 outside.
    """
    return np.kron(_windows(height, grid, window), _windows(width, grid, window))


def _windows(side: int, grid: int, window: float) -> NDArray[np.float32]:
    """Return weights (grid, side) of evenly spaced windows: 1 / length inside, 0 outside."""
    length = max(1, round(side * window))
    weights = np.zeros((grid, side), np.float32)
    for row, start in enumerate(np.linspace(0, side - length, grid)):
        weights[row, round(start) : round(start) + length] = 1 / length
    return weights
