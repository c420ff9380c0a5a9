"""Tuned kernel features, and ranking functions that are linear in features, in RBF kernels or in tuned features."""

from abc import abstractmethod
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from cbir.errors import InvalidInput
from cbir.learn.models.ranking_estimator import FeatureRanker
from cbir.system.threads import checkpoint

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

COMPONENTS = 256  # of the PCA, at most
LANDMARKS = 800  # images, at most
SAMPLE = 1000  # images to choose width and ridge with, at most
WIDTHS = (0.0, 0.25, 0.5, 1.0, 2.0)
RIDGES = tuple(np.logspace(-2.5, 1.5, 13).tolist())
LEAST = 1e-9  # eigenvalue, as a share of the largest


class Tuning(NamedTuple):
    """Width of the kernel, 0: linear; and the ridge of kernel ridge regression."""

    width: float
    ridge: float


class KernelMap(NamedTuple):
    """Map of standardised features to features in which ridge regression with ridge 1 grades best.

    Attributes
    ----------
    axes : (d, k) float64
        Principal axes, scaled so that the mean squared length of training images is 1; k is 0: the features as they
        are, divided by the root of their number.
    landmarks : (m, k or d) float64
        Projected images at the centres of the kernels; m is 0: a linear map.
    root : (m, r) float64
        Turns kernels into features (Nystroem's approximation: Williams & Seeger 2001).
    tuning : Tuning
        Width and ridge.
    """

    axes: Floats
    landmarks: Floats
    root: Floats
    tuning: Tuning

    def __call__(self, Z: Floats) -> Floats:
        """Return features (n, r) of standardised features `Z` (n, d)."""
        P = project_features(Z, self.axes)
        if not len(self.landmarks):
            return cast(Floats, P / np.sqrt(self.tuning.ridge))
        return kernels(P, self.landmarks, self.tuning.width) @ self.root

    def linear_weights(self, weights: Floats) -> Floats:
        """Return the weights (d,) of standardised features that equal `weights` (r,) of a linear map's features."""
        basis = self.axes if self.axes.shape[1] else np.eye(len(weights)) / np.sqrt(len(weights))
        return cast(Floats, basis @ weights / np.sqrt(self.tuning.ridge))


def project_features(Z: Floats, axes: Floats) -> Floats:
    """Return the coordinates of standardised features `Z` (n, d) on `axes` (d, k)."""
    return Z @ axes if axes.shape[1] else Z / np.sqrt(Z.shape[1])


def kernels(P: Floats, landmarks: Floats, width: float) -> Floats:
    """Return the kernels (n, m): inner products for width 0, else exp(-width |x - y|^2)."""
    if not width:
        return P @ landmarks.T
    return cast(Floats, np.exp(-width * euclidean_distances(P, landmarks, squared=True)))


def fit_kernel_map(
    Z: Floats, grades: Floats, groups: Integers, seed: int = 0, tuning: tuple[float, float] | None = None
) -> KernelMap:
    """Fit PCA, kernel and ridge.

    Parameters
    ----------
    Z : (n, d) float64
        Standardised features.
    grades : (n,) float64
        Grades.
    groups : (n,) int
        Images of one group, such as a patient, are left out together.
    seed : int
        Of the samples.
    tuning : (float, float), optional
        Width and ridge; None: those with the least leave-one-group-out error.
    """
    order = np.random.default_rng(seed).permutation(len(Z))
    axes = _principal_axes(Z[np.sort(order[: 2 * SAMPLE])])
    if tuning is None:
        rows = np.sort(order[:SAMPLE])
        tuning = _tune(project_features(Z[rows], axes), grades[rows], groups[rows])
    tuned = Tuning(*tuning)
    if not tuned.width:
        return KernelMap(axes, np.empty((0, axes.shape[1])), np.empty((0, 0)), tuned)
    # shorter in storage
    landmarks = project_features(Z[np.sort(order[:LANDMARKS])], axes).astype(np.float32).astype(np.float64)
    values, vectors = np.linalg.eigh(kernels(landmarks, landmarks, tuned.width))
    large = values > LEAST * values[-1]
    root = vectors[:, large] / np.sqrt(values[large] * tuned.ridge)
    return KernelMap(axes, landmarks, root, tuned)


def _principal_axes(Z: Floats) -> Floats:
    if Z.shape[1] <= COMPONENTS:
        return np.empty((Z.shape[1], 0))
    wide = len(Z) < Z.shape[1]
    values, vectors = np.linalg.eigh(Z @ Z.T if wide else Z.T @ Z)
    values, vectors = values[::-1][:COMPONENTS], vectors[:, ::-1][:, :COMPONENTS]
    large = values > LEAST * values[0]
    axes = Z.T @ (vectors[:, large] / np.sqrt(values[large])) if wide else vectors[:, large]
    return cast(Floats, axes / np.sqrt(values[large].sum() / len(Z)))


def left_out_error(Z: Floats, grades: Floats, groups: Integers) -> float:
    """Return the mean squared error of the best width and ridge, each image graded without its group.

    Parameters
    ----------
    Z : (n, d) float64
        Standardised features.
    grades : (n,) float64
        Grades.
    groups : (n,) int
        Images of one group, such as a patient, are left out together.
    """
    return min(_errors(project_features(Z, _principal_axes(Z)), grades, groups).values()) / len(Z)


def _tune(P: Floats, grades: Floats, groups: Integers) -> Tuning:
    errors = _errors(P, grades, groups)
    return min(errors, key=errors.__getitem__)


def _errors(P: Floats, grades: Floats, groups: Integers) -> dict[Tuning, float]:
    """Return the sum of squared leave-one-group-out errors of each width and ridge."""
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    centred = grades - grades.mean()
    errors: dict[Tuning, float] = {}
    for width in WIDTHS:
        checkpoint()
        values, vectors = np.linalg.eigh(kernels(P, P, width))
        for ridge in RIDGES:
            residuals = left_out_residuals(np.maximum(values, 0.0) + ridge, vectors, centred, members)
            errors[Tuning(width, ridge)] = float(residuals @ residuals)
    return errors


def left_out_residuals(values: Floats, vectors: Floats, targets: Floats, members: list[Integers]) -> Floats:
    """Return the errors of kernel ridge regression for each image if its group is not in training.

    For the inverse G of kernel matrix plus ridge they are, in rows B of a group, the solution of G_BB e = (G y)_B.

    Parameters
    ----------
    values : (n,) float64
        Eigenvalues of the kernel matrix, plus the ridge.
    vectors : (n, n) float64
        Its eigenvectors.
    targets : (n,) float64
        Numbers to predict.
    members : list of int array
        Rows of each group.
    """
    weighted = vectors / values
    dual = weighted @ (vectors.T @ targets)
    residuals = dual / np.einsum("ij,ij->i", weighted, vectors)
    for size in {len(rows) for rows in members} - {1}:
        rows = np.array([group for group in members if len(group) == size])
        blocks = weighted[rows] @ vectors[rows].transpose(0, 2, 1)
        residuals[rows] = np.linalg.solve(blocks, dual[rows][:, :, None])[:, :, 0]
    return cast(Floats, residuals)


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
        (`cbir.learn.models.kernel_ranker`).
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
