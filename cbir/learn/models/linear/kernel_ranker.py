"""Ranking functions that are linear in the features, in RBF kernels at landmarks, or in tuned kernel features."""

from abc import abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.models.linear.kernel_map import Tuning, fit_kernel_map, kernels, project_features
from cbir.learn.models.linear.ranking_estimator import FeatureRanker

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Kernel = Literal["linear", "rbf", "auto"]

KERNELS = ("linear", "rbf", "auto")
RBF_LANDMARKS = 300  # images, at most
LEAST_EIGENVALUE = 1e-10  # eigenvalue of the landmarks' kernel matrix


class KernelRanker(FeatureRanker):
    """A ranker whose scores are the products of `coef_` with standardised features, or with kernels at `landmarks_`.

    Attributes
    ----------
    kernel : str
        "linear", as in the paper; "rbf", exp(-|x - y|^2 / d) at 300 of the images (Nystroem's approximation: Williams
        & Seeger 2001); "auto", linear or RBF on principal components, with width and ridge tuned on left-out groups
        (`cbir.learn.models.linear.kernel_map`).
    tuning : (float, float), optional
        Width and ridge for "auto", instead of tuned ones.
    tuning_ : (float, float)
        Width and ridge that "auto" used.
    axes_ : (d, k) float64
        Principal axes of "auto"; k is 0 without them.
    landmarks_ : (m, d) or (m, k) float64
        m is 0 if the function is linear.
    coef_ : (d,), (k,) or (m,) float64
        Weights.
    """

    kernel: Kernel
    tuning: Tuning | None
    coef_: Floats
    landmarks_: Floats
    axes_: Floats
    tuning_: Tuning

    def _learn(self, Z: Floats, grades: Floats, groups: Integers) -> None:
        if self.kernel not in KERNELS:
            raise InvalidInput(f"the kernel is one of {', '.join(KERNELS)}, not {self.kernel!r}")
        if self.kernel == "auto":
            self._learn_tuned(Z, grades, groups)
        elif self.kernel == "linear":
            self.landmarks_ = np.empty((0, Z.shape[1]))
            self.coef_ = self._weights(Z, grades, groups)
        else:
            rows = np.random.default_rng(self.seed).permutation(len(Z))[:RBF_LANDMARKS]
            self.landmarks_ = Z[np.sort(rows)].astype(np.float32).astype(np.float64)  # shorter in storage
            width = 1.0 / Z.shape[1]  # the share of a standardised feature in the squared distance
            values, vectors = np.linalg.eigh(kernels(self.landmarks_, self.landmarks_, width))
            root = vectors / np.sqrt(np.maximum(values, LEAST_EIGENVALUE))
            root[:, values <= LEAST_EIGENVALUE] = 0.0
            self.coef_ = root @ self._weights(kernels(Z, self.landmarks_, width) @ root, grades, groups)

    def _learn_tuned(self, Z: Floats, grades: Floats, groups: Integers) -> None:
        features = fit_kernel_map(Z, grades, groups, self.seed, self.tuning)
        weights = self._weights(features(Z) * self._scale(len(Z)), grades, groups) * self._scale(len(Z))
        self.tuning_, self.landmarks_ = features.tuning, features.landmarks
        if len(self.landmarks_):
            self.axes_, self.coef_ = features.axes, features.root @ weights
        else:  # a linear map needs nothing but its weights
            self.landmarks_ = np.empty((0, Z.shape[1]))
            self.coef_ = features.linear_weights(weights)

    @abstractmethod
    def _weights(self, F: Floats, grades: Floats, groups: Integers) -> Floats:
        """Fit the weights (m,) of features `F` (n, m) to `grades` (n,); `groups` (n,) stay together in folds."""

    @abstractmethod
    def _scale(self, count: int) -> float:
        """Return the factor of the tuned features of `count` images that gives this loss the tuned ridge."""

    def _products(self, Z: Floats) -> Floats:
        """Return the products (n,) of standardised features `Z` (n, d), or their kernels, with `coef_`."""
        if not len(self.landmarks_):
            return Z @ self.coef_
        if hasattr(self, "axes_"):
            return kernels(project_features(Z, self.axes_), self.landmarks_, self.tuning_[0]) @ self.coef_
        return kernels(Z, self.landmarks_, 1.0 / Z.shape[1]) @ self.coef_

    def _scores(self, Z: Floats) -> Floats:
        return self._products(Z)
