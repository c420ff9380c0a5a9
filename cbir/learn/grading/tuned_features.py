"""Tuned kernel features of the baselines, which have no base class that standardises."""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from cbir.learn.models.linear.kernel_ranker import KernelMap, Tuning, fit_kernel_map

Floats = NDArray[np.float64]


class TunedFeatures:
    """Standardisation and a kernel map, fitted to graded features.

    Parameters
    ----------
    X : (n, d) float64
        Features.
    grades : (n,) float64
        Grades.
    groups : (n,) int
        Images of one group, such as a patient, are left out together.
    tuning : Tuning, optional
        Width and ridge; None: tuned.
    """

    def __init__(
        self, X: Floats, grades: Floats, groups: NDArray[np.int64], tuning: Tuning | None = None
    ) -> None:
        deviation = X.std(axis=0)
        self.mean = X.mean(axis=0)
        self.scale = np.where(deviation > 1e-7 * np.abs(self.mean), deviation, np.inf)
        self.map: KernelMap = fit_kernel_map(self._standardised(X), grades, groups, tuning=tuning)

    def __call__(self, X: Floats) -> Floats:
        """Return the features (n, r) of `X` (n, d)."""
        return self.map(self._standardised(X))

    def _standardised(self, X: Floats) -> Floats:
        return cast(Floats, (X - self.mean) / self.scale)
