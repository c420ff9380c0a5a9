"""Ranking functions that are linear in the features, or in RBF kernels at landmarks."""

from abc import abstractmethod
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from cbir.errors import InvalidInput
from cbir.models.linear.grouped_folds import group_folds
from cbir.models.linear.list_measures import kendall_tau
from cbir.models.linear.ranking_estimator import RankingEstimator

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Kernel = Literal["linear", "rbf", "auto"]

KERNELS = ("linear", "rbf", "auto")
LANDMARKS = 300  # images, at most
FOLDS = 3  # to choose the kernel
SAMPLE = 3000  # images to choose the kernel, at most
LEAST = 1e-10  # eigenvalue of the landmarks' kernel matrix


class KernelRanker(RankingEstimator):
    """A ranker whose scores are the products of `coef_` with standardised features, or with kernels at `landmarks_`.

    Attributes
    ----------
    kernel : str
        "linear", as in the paper; "rbf", exp(-|x - y|^2 / d) at 300 of the images (Nystroem's approximation: Williams
        & Seeger 2001); "auto", the one that ranks held-out groups better by Kendall's tau, in three folds of at most
        3,000 images.
    landmarks_ : (m, d) float64
        m is 0 if the function is linear.
    coef_ : (d,) or (m,) float64
        Weights.
    """

    kernel: Kernel
    coef_: Floats
    landmarks_: Floats

    def _learn(self, Z: Floats, grades: Floats, groups: Integers) -> None:
        if self.kernel not in KERNELS:
            raise InvalidInput(f"the kernel is one of {', '.join(KERNELS)}, not {self.kernel!r}")
        kernel = self._better(Z, grades, groups) if self.kernel == "auto" else self.kernel
        if kernel == "linear":
            self.landmarks_ = np.empty((0, Z.shape[1]))
            self.coef_ = self._weights(Z, grades, groups)
            return
        rows = np.random.default_rng(self.seed).permutation(len(Z))[:LANDMARKS]
        self.landmarks_ = Z[np.sort(rows)].astype(np.float32).astype(np.float64)  # shorter in storage
        values, vectors = np.linalg.eigh(_kernels(self.landmarks_, self.landmarks_))
        root = vectors / np.sqrt(np.maximum(values, LEAST))
        root[:, values <= LEAST] = 0.0
        self.coef_ = root @ self._weights(_kernels(Z, self.landmarks_) @ root, grades, groups)

    @abstractmethod
    def _weights(self, F: Floats, grades: Floats, groups: Integers) -> Floats:
        """Fit the weights (m,) of features `F` (n, m) to `grades` (n,); `groups` (n,) stay together in folds."""

    def _products(self, Z: Floats) -> Floats:
        """Return the products (n,) of standardised features `Z` (n, d), or their kernels, with `coef_`."""
        return (_kernels(Z, self.landmarks_) if len(self.landmarks_) else Z) @ self.coef_

    def _scores(self, Z: Floats) -> Floats:
        return self._products(Z)

    def _better(self, Z: Floats, grades: Floats, groups: Integers) -> str:
        """Return the kernel that ranks held-out images better; "linear" if there are too few images."""
        sample = np.sort(np.random.default_rng(self.seed).permutation(len(Z))[:SAMPLE])
        Z, grades, groups = Z[sample], grades[sample], groups[sample]
        if len(np.unique(groups)) < 2 * FOLDS:
            return "linear"
        taus = dict.fromkeys(("linear", "rbf"), 0.0)
        for train, test in group_folds(grades, groups, FOLDS, self.seed):
            if len(np.unique(grades[train])) < 2:
                return "linear"
            members = np.unique(groups[train], return_inverse=True)[1]
            for kernel in taus:
                candidate = clone(self).set_params(kernel=kernel)
                candidate._learn(Z[train], grades[train], members)
                scores = candidate._scores(Z[test])
                taus[kernel] += float(kendall_tau(scores, grades[test], np.zeros(len(test), int))[0])
        return max(taus, key=taus.__getitem__)


def _kernels(Z: Floats, landmarks: Floats) -> Floats:
    """Return the kernels (n, m), scaled by 1 / d, the share of a standardised feature in the squared distance."""
    return cast(Floats, rbf_kernel(Z, landmarks, gamma=1.0 / Z.shape[1]))
