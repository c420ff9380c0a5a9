"""Linear discriminant analysis of labels, fitted without the images that it judges.

Of each image, the probabilities come from a model fitted to images of other patients (out-of-fold: Northcutt et al.
2021, Confident learning). The covariance within classes is shrunk as Ledoit and Wolf (2004) propose, so that classes
of ten images do; a temperature (Guo et al. 2017, On calibration of modern neural networks) makes the probabilities
honest.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.decomposition import PCA

from cbir.gallery.vector_blocks import Floats, spread_rows
from cbir.system.cancellation import checkpoint

FOLDS = 5
DIMENSIONS = 128  # principal directions that classes are told apart in
SAMPLE = 5000  # images that directions, shrinkage and temperature are computed from
LEAST_SHRINKAGE = 0.02
FLOOR = 0.05  # probability mass spread over all classes while the temperature is chosen: labels may be wrong
TEMPERATURES = np.geomspace(0.5, 32.0, 19)
ABSENT = -1e3  # log probability of a class that a model was fitted without

Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelModel:
    """Models of the folds: coefficients (folds, d, c), intercepts (folds, c). fold: (n,), that judges each image."""

    features: Floats
    fold: Codes
    coefficients: Numbers
    intercepts: Numbers
    temperature: float

    def log_probabilities(self, rows: Codes) -> Numbers:
        """Return the logarithms (m, c) of the probabilities of the classes for rows (m,)."""
        return log_softmax(self._scores(rows) / self.temperature)

    def _scores(self, rows: Codes) -> Numbers:
        scores = np.empty((len(rows), self.intercepts.shape[1]))
        for fold in range(FOLDS):
            inside = self.fold[rows] == fold
            scores[inside] = self.features[rows[inside]] @ self.coefficients[fold] + self.intercepts[fold]
        return scores


def fit_label_model(units: Floats, labels: Codes, block: Codes, classes: int) -> LabelModel:
    """Fit a model for each fold to the images of the others.

    Parameters
    ----------
    units : (n, d) float32
        Vectors.
    labels : (n,) int64
        Classes, from 0.
    block : (n,) int64
        Images of one block, as of one patient, are in the same fold.
    classes : int
        Number of classes.
    """
    features = reduce_dimensions(units)
    fold = deal_folds(labels, block)
    fitted = []
    for number in range(FOLDS):
        checkpoint()
        others = fold != number
        fitted.append(_fit(features[others], labels[others], classes))
    coefficients = np.stack([each[0] for each in fitted])
    intercepts = np.stack([each[1] for each in fitted])
    model = LabelModel(features, fold, coefficients, intercepts, 1.0)
    sample = spread_rows(len(features), SAMPLE)
    temperature = choose_temperature(model._scores(sample), labels[sample])
    return LabelModel(features, fold, coefficients, intercepts, temperature)


def reduce_dimensions(units: Floats) -> Floats:
    """Return vectors (n, d) in their first principal directions, at most DIMENSIONS and fewer than images."""
    count = min(DIMENSIONS, units.shape[1], max(len(units) - 1, 1))
    if count >= units.shape[1]:
        return units
    directions = PCA(count, random_state=0).fit(units[spread_rows(len(units), SAMPLE)])
    return np.asarray(directions.transform(units), np.float32)


def deal_folds(labels: Codes, block: Codes) -> Codes:
    """Return the fold (n,) of each image: blocks are dealt out class by class, in an order shuffled at random."""
    _, first, of_image = np.unique(block, return_index=True, return_inverse=True)
    shuffled = np.random.default_rng(0).permutation(len(first))
    order = shuffled[np.argsort(labels[first][shuffled], kind="stable")]
    fold = np.empty(len(first), np.int64)
    fold[order] = np.arange(len(first)) % FOLDS
    return fold[of_image]


def choose_temperature(scores: Numbers, labels: Codes) -> float:
    """Return the temperature under which labels (n,) are likeliest by scores (n, c), a few of them being wrong."""
    rows = np.arange(len(labels))

    def loss(temperature: float) -> float:
        of_label = np.exp(log_softmax(scores / temperature)[rows, labels])
        return float(-np.log((1 - FLOOR) * of_label + FLOOR / scores.shape[1]).sum())

    return float(min(TEMPERATURES.tolist(), key=loss))


def log_softmax(scores: Numbers) -> Numbers:
    """Return the logarithm of the softmax of each row of scores (n, c)."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def _fit(features: Floats, labels: Codes, classes: int) -> tuple[Numbers, Numbers]:
    """Return coefficients (d, c) and intercepts (c,) of the discriminants."""
    counts = np.bincount(labels, minlength=classes)
    sums = np.zeros((classes, features.shape[1]))
    np.add.at(sums, labels, features)
    means = sums / np.maximum(counts, 1)[:, None]
    residuals = features - means[labels].astype(np.float32)
    shrinkage = LEAST_SHRINKAGE
    if len(residuals):
        sample = residuals[spread_rows(len(residuals), SAMPLE)]
        shrinkage = max(shrinkage, float(ledoit_wolf_shrinkage(sample, assume_centered=True)))
    covariance = (residuals.T @ residuals).astype(np.float64) / max(len(residuals), 1)
    scale = float(np.trace(covariance)) / len(covariance) or 1.0
    covariance = (1 - shrinkage) * covariance + shrinkage * scale * np.eye(len(covariance))
    coefficients = np.linalg.solve(covariance, means.T)
    intercepts = np.log(np.maximum(counts, 1)) - 0.5 * np.einsum("cd,dc->c", means, coefficients)
    intercepts[counts == 0] = ABSENT
    coefficients[:, counts == 0] = 0.0
    return np.asarray(coefficients, np.float64), np.asarray(intercepts, np.float64)
