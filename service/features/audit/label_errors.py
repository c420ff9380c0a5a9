"""Labels that are probably wrong.

Two judges that have not seen an image's own label, nor other images of its patient, say how likely each class is: a
linear discriminant analysis, and the votes of the nearest images, weighted by likeness. Their geometric mean is
compared between the label and the likeliest other class.

The analysis is fitted to images of other patients (out-of-fold: Northcutt et al. 2021, Confident learning). The
covariance within classes is shrunk as Ledoit and Wolf (2004) propose, so that classes of ten images do; a temperature
(Guo et al. 2017, On calibration of modern neural networks) makes the probabilities honest.

"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.decomposition import PCA

from cbir.errors import InvalidInput
from cbir.gallery.vector_blocks import Floats, spread_rows
from cbir.system.threads import checkpoint
from service.features.audit.audited_images import IndependentNeighbours, find_independent

FOLDS = 5
DIMENSIONS = 128  # principal directions that classes are told apart in
SAMPLE = 5000  # images that directions, shrinkage and temperature are computed from
LEAST_SHRINKAGE = 0.02
FLOOR = 0.05  # probability mass spread over all classes while the temperature is chosen: labels may be wrong
TEMPERATURES = np.geomspace(0.5, 32.0, 19)
ABSENT = -1e3  # log probability of a class that a model was fitted without
Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]
VOTERS = 15  # nearest images that vote
SHARE_OF_CLASS = 0.7  # of the median class, if that is fewer
LEAST_VOTERS = 3
LEAST_BLOCKS = 3  # independent images of a class; of fewer nothing can be said
UNKNOWN = 0.5  # suspicion of their labels
LEAST_LOG = float(np.log(1e-6))  # of a probability: no judge alone decides everything
SUSPECT = 0.5  # suspicion above which another class is likelier than the label
SHOWN_NEIGHBOURS = 5
ROWS = 4096  # judged at a time


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


@dataclass(frozen=True, eq=False)
class LabelErrors:
    """Judgement of m labelled images.

    rows: (m,) rows of the images. label, suggested: (m,) codes of the label, and of the likeliest other class.
    suspicion: (m,) from 0 to 1, above 0.5 if the other class is likelier. names: of the classes. rare: (c,) bool,
    classes with too few independent images, whose labels have the suspicion 0.5. neighbours: (m, 5) rows of the
    nearest images of other patients with the suggested class; -1 if there are fewer.
    """

    rows: Codes
    label: Codes
    suggested: Codes
    suspicion: Numbers
    names: list[str]
    rare: NDArray[np.bool_]
    neighbours: Codes

    def suspects(self) -> Codes:
        """Return the positions of labels that are probably wrong, the most suspicious first."""
        order = np.argsort(-self.suspicion, kind="stable")
        return np.asarray(order[self.suspicion[order] > SUSPECT])


def find_label_errors(
    units: Floats,
    block: Codes,
    label: Codes,
    names: list[str],
    nearest: IndependentNeighbours | None = None,
) -> LabelErrors:
    """Judge the labels of images; none is suspect unless two classes have enough independent images.

    Parameters
    ----------
    units : (n, d) float32
        Vectors of length 1.
    block : (n,) int64
        Images of one block, as of one patient, do not judge each other.
    label : (n,) int64
        Codes of the labels; -1: none.
    names : list of str
        Values by code.
    nearest : IndependentNeighbours, optional
        Neighbours of all n images, if they have been found already.
    """
    rows = np.flatnonzero(label >= 0)
    labels, blocks, classes = label[rows], block[rows], len(names)
    rare = independent_counts(labels, blocks, classes) < LEAST_BLOCKS
    if np.count_nonzero(~rare) < 2:
        unjudged, neighbours = np.full(len(rows), UNKNOWN), np.full((len(rows), SHOWN_NEIGHBOURS), -1)
        return LabelErrors(rows, labels, labels, unjudged, names, np.ones(classes, np.bool_), neighbours)
    features = units[rows]
    voters = count_voters(labels, classes)
    if nearest is None or len(rows) < len(label):
        nearest = find_independent(features, blocks, VOTERS)
    model = fit_label_model(features, labels, blocks, classes)
    suspicion, suggested = _judge(model, nearest, voters, labels, rare)
    return LabelErrors(
        rows, labels, suggested, suspicion, names, rare, _shown_neighbours(nearest, labels, suggested, rows)
    )


def require_classes(label: Codes, block: Codes, key: str) -> None:
    """Raise InvalidInput unless two values of a label have several independent images each.

    Parameters
    ----------
    label, block : (n,) int64
        As of `find_label_errors`.
    key : str
        Key of the label.
    """
    with_label = label >= 0
    counts = independent_counts(label[with_label], block[with_label], int(label.max(initial=-1)) + 1)
    if np.count_nonzero(counts >= LEAST_BLOCKS) < 2:
        raise InvalidInput(
            f"errors of the label {key} cannot be found: it needs two values or more that "
            f"{LEAST_BLOCKS} images of different patients have each"
        )


def independent_counts(labels: Codes, blocks: Codes, classes: int) -> Codes:
    """Return the number (c,) of different blocks among the images of each class.

    Parameters
    ----------
    labels : (n,) int64
        Classes.
    blocks : (n,) int64
    classes : int
        Number of classes.
    """
    pairs = np.unique(np.column_stack([labels, blocks]), axis=0)
    return np.bincount(pairs[:, 0], minlength=classes)


def count_voters(labels: Codes, classes: int) -> int:
    """Return how many neighbours vote: fewer than most classes have images, so that a class can win in its midst."""
    sizes = np.bincount(labels, minlength=classes)
    median = float(np.median(sizes[sizes > 0]))
    return int(np.clip(SHARE_OF_CLASS * median, LEAST_VOTERS, VOTERS))


def _judge(
    model: LabelModel, nearest: IndependentNeighbours, voters: int, labels: Codes, rare: NDArray[np.bool_]
) -> tuple[Numbers, Codes]:
    """Return the suspicion (m,) of labels and the likeliest other class (m,), which is never a rare one."""
    frequency = np.bincount(labels, minlength=len(rare)) / len(labels)
    finite = nearest.distances[:, :voters][np.isfinite(nearest.distances[:, :voters])]
    width = max(float(np.median(finite)) if len(finite) else 0.0, 1e-6)
    suspicion, suggested = np.empty(len(labels)), np.empty(len(labels), np.int64)
    for start in range(0, len(labels), ROWS):
        checkpoint()
        rows = np.arange(start, min(start + ROWS, len(labels)))
        votes = count_votes(nearest, rows, voters, labels, frequency, width)
        mean = (np.maximum(model.log_probabilities(rows), LEAST_LOG) + np.log(votes)) / 2
        of_label = mean[np.arange(len(rows)), labels[rows]]
        mean[:, rare] = -np.inf
        mean[np.arange(len(rows)), labels[rows]] = -np.inf
        suggested[rows] = mean.argmax(axis=1)
        suspicion[rows] = 1 / (1 + np.exp(of_label - mean.max(axis=1)))
    suspicion[rare[labels]] = UNKNOWN
    return suspicion, suggested


def count_votes(
    nearest: IndependentNeighbours, rows: Codes, voters: int, labels: Codes, frequency: Numbers, width: float
) -> Numbers:
    """Return the share (m, c) of the votes for each class, with one vote spread by the frequencies of the classes.

    Parameters
    ----------
    nearest : IndependentNeighbours
        Of all images.
    rows : (m,) int64
        Images to vote on.
    voters : int
        Neighbours that vote.
    labels : (n,) int64
        Classes of all images.
    frequency : (c,) float64
        Shares of the classes.
    width : float
        Distance at which a vote weighs exp(-1).
    """
    neighbours, distances = nearest.rows[rows, :voters], nearest.distances[rows, :voters]
    votes = np.tile(frequency, (len(rows), 1))
    of = np.repeat(np.arange(len(rows)), neighbours.shape[1])
    np.add.at(votes, (of, labels[neighbours].ravel()), np.exp(-distances.astype(np.float64) / width).ravel())
    return np.asarray(np.maximum(votes / votes.sum(axis=1, keepdims=True), 1e-12))


def _shown_neighbours(nearest: IndependentNeighbours, labels: Codes, suggested: Codes, rows: Codes) -> Codes:
    """Return the rows (m, SHOWN_NEIGHBOURS) of the nearest images with the suggested class, -1 if there are fewer."""
    agrees = (nearest.rows >= 0) & (labels[nearest.rows] == suggested[:, None])
    order = np.argsort(~agrees, axis=1, kind="stable")[:, :SHOWN_NEIGHBOURS]
    positions = np.take_along_axis(nearest.rows, order, axis=1)
    return np.where(np.take_along_axis(agrees, order, axis=1), rows[positions], -1)
