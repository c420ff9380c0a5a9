"""Sums of a smooth step over all pairs of a list: exact for short lists, on a grid for long ones."""

from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

Floats = NDArray[np.float64]

EXACT = 1024  # longest list whose pairs are formed
SPACING = 0.02  # of the grid, where tanh has slope 1: an error below 4e-5 per pair
MOST = 2**17  # grid points


class SmoothSteps:
    """Sums over y of tanh(u_y - u_x), and of its slope, for values u (n,); O(n log n) for large n."""

    def __init__(self, values: Floats) -> None:
        self.exact = len(values) <= EXACT
        if self.exact:
            self._tanh = np.tanh(values[None, :] - values[:, None])
            self._slope = 1.0 - self._tanh**2
            return
        low = float(values.min())
        reach = float(values.max()) - low
        self._spacing = max(SPACING, reach / MOST)
        self._size = int(reach / self._spacing) + 2
        positions = (values - low) / self._spacing
        self._cell = positions.astype(np.int64)
        self._share = positions - self._cell
        offsets = self._spacing * np.arange(1 - self._size, self._size)
        self._kernel = np.tanh(offsets)

    def ranks(self) -> Floats:
        """Return (n,) the sum over y of tanh(u_y - u_x)."""
        if self.exact:
            return cast(Floats, self._tanh.sum(axis=1))
        return self._convolved(np.ones(len(self._cell)), -self._kernel)

    def slopes(self, weights: Floats) -> Floats:
        """Return (n,) the sum over y of weights_y tanh'(u_y - u_x), with `weights` (n,)."""
        if self.exact:
            return self._slope @ weights
        return self._convolved(weights, 1.0 - self._kernel**2)

    def _convolved(self, weights: Floats, kernel: Floats) -> Floats:
        grid = np.bincount(self._cell, weights * (1.0 - self._share), self._size)
        grid += np.bincount(self._cell + 1, weights * self._share, self._size)
        middle = fftconvolve(kernel, grid)[self._size - 1 : 2 * self._size - 1]
        return cast(Floats, middle[self._cell] * (1.0 - self._share) + middle[self._cell + 1] * self._share)
