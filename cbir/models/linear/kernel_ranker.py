"""Ranking functions that are linear in the features, or in the values of RBF kernels at some of the images."""

from abc import abstractmethod
from typing import Literal

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
LANDMARKS = 300  # images that kernels stand on, at most
FOLDS = 3  # to choose the kernel with
SAMPLE = 3000  # images that are enough for that
LEAST = 1e-10  # eigenvalue of the landmarks' kernel matrix


class KernelRanker(RankingEstimator):
    """Scores are the products of `coef_` with standardised features, or with kernels at `landmarks_`.

    kernel: "linear", as in the paper; "rbf", exp(-|x - y|^2 / d) at 300 of the images (Nystroem's approximation:
    Williams & Seeger 2001); "auto", the one that ranks held-out groups better by Kendall's tau, in three folds of
    3,000 images at most. landmarks_: (m, d), m 0 where the function is linear. coef_: (d,) or (m,).
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
        self.landmarks_ = (
            Z[np.sort(rows)].astype(np.float32).astype(np.float64)
        )  # shorter where they are kept
        values, vectors = np.linalg.eigh(_kernels(self.landmarks_, self.landmarks_))
        root = vectors / np.sqrt(np.maximum(values, LEAST))
        root[:, values <= LEAST] = 0.0
        self.coef_ = root @ self._weights(_kernels(Z, self.landmarks_) @ root, grades, groups)

    @abstractmethod
    def _weights(self, F: Floats, grades: Floats, groups: Integers) -> Floats:
        """The weights (m,) of features (n, m)."""

    def _products(self, Z: Floats) -> Floats:
        """Of standardised features (n, d) with what was learnt, (n,)."""
        return (_kernels(Z, self.landmarks_) if len(self.landmarks_) else Z) @ self.coef_

    def _scores(self, Z: Floats) -> Floats:
        return self._products(Z)

    def _better(self, Z: Floats, grades: Floats, groups: Integers) -> str:
        """The kernel that ranks better what it has not seen; "linear" where there is too little to tell."""
        chosen = np.sort(np.random.default_rng(self.seed).permutation(len(Z))[:SAMPLE])
        Z, grades, groups = Z[chosen], grades[chosen], groups[chosen]
        if len(np.unique(groups)) < 2 * FOLDS:
            return "linear"
        taus = dict.fromkeys(("linear", "rbf"), 0.0)
        for train, test in group_folds(grades, groups, FOLDS, self.seed):
            if len(np.unique(grades[train])) < 2:
                return "linear"
            members = np.unique(groups[train], return_inverse=True)[1]
            for kernel in taus:
                tried = clone(self).set_params(kernel=kernel)
                tried._learn(Z[train], grades[train], members)
                taus[kernel] += float(
                    kendall_tau(tried._scores(Z[test]), grades[test], np.zeros(len(test), int))[0]
                )
        return max(taus, key=lambda kernel: taus[kernel])


def _kernels(Z: Floats, landmarks: Floats) -> Floats:
    """(n, m) values of the kernels; a standardised feature's share of the squared distance is 1 / d."""
    return rbf_kernel(Z, landmarks, gamma=1.0 / Z.shape[1])
