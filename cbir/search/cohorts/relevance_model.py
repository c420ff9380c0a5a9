"""Relevance of images to a cohort: logistic regression on judged images, likeness to them, and added evidence."""

from dataclasses import dataclass

import numpy as np

from cbir.gallery.vector_blocks import CHUNK, Doubles, Floats, Rows, VectorBlocks
from cbir.system.threads import OneBlasThread

PENALTY = 0.3  # C of the regression
BACKGROUND_WEIGHT = 0.3  # of an image that is not judged and counts as not relevant
STEPS = 100
HALVINGS = 50  # each halves what is left of the interval, at first as long as the evidence's range


@dataclass(frozen=True, eq=False)
class RelevanceModel:
    """Learned probability that an image is relevant.

    coefficients: (d,) float32. spread: root mean square of the training values about their mean, which scales them.
    """

    coefficients: Floats
    bias: float
    spread: float = 1.0

    def probabilities(self, vectors: VectorBlocks, rows: Rows | None = None) -> Doubles:
        """Return the probabilities (m,) of all rows, or of ascending `rows`."""
        scores = np.empty(len(vectors) if rows is None else len(rows), np.float64)
        for where, part in vectors.chunks(rows):
            scores[where] = part @ self.coefficients
        return probability_of(scores + self.bias)


def probability_of(log_odds: Doubles) -> Doubles:
    """Return the probabilities (m,) of log odds (m,)."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(log_odds, -60.0, 60.0))))


def learn_relevance(relevant: Floats, irrelevant: Floats, background: Floats) -> RelevanceModel:
    """Train a classifier; of images that are not judged a few count as not relevant, with a small weight.

    Nearly all images of a collection are not relevant, so a random one is a negative example (Cormack & Grossman
    2015, "Autonomy and reliability of continuous active learning", section 3).

    Parameters
    ----------
    relevant : (p, d) float32
        Vectors of the images judged relevant, p at least 1.
    irrelevant : (n, d) float32
        Vectors of those judged not relevant.
    background : (b, d) float32
        Vectors of random images that are not judged.
    """
    from sklearn.linear_model import LogisticRegression  # which takes a second to import

    vectors = np.vstack([relevant, irrelevant, background])
    truths = np.arange(len(vectors)) < len(relevant)
    if truths.all():  # nothing to tell them from
        return RelevanceModel(np.zeros(vectors.shape[1], np.float32), 0.0)
    weights = np.ones(len(vectors))
    weights[len(relevant) + len(irrelevant) :] = BACKGROUND_WEIGHT
    centre = vectors.mean(axis=0, dtype=np.float64)
    spread = float(np.sqrt(np.mean((vectors - centre) ** 2))) or 1.0
    regression = LogisticRegression(C=PENALTY, max_iter=STEPS, tol=1e-3)
    with OneBlasThread():
        regression.fit((vectors - centre) / spread, truths, weights)
    coefficients = regression.coef_[0] / spread
    return RelevanceModel(
        coefficients.astype(np.float32), float(regression.intercept_[0] - coefficients @ centre), spread
    )


def add_evidence(probabilities: Doubles, evidence: Doubles, weights: Doubles) -> Doubles:
    """Return probabilities in another order with the same sum.

    Evidence says which images are more probable than others and not how many are relevant, so all log odds are moved
    by the same amount until the weighted sum is as it was.

    Parameters
    ----------
    probabilities : (n,) float64
        Of the classifier.
    evidence : (n,) float64
        What is added to the log odds.
    weights : (n,) float64
        How many images each one stands for.
    """
    if not len(probabilities) or np.ptp(evidence) == 0:
        return probabilities
    bounded = np.clip(probabilities, 1e-12, 1 - 1e-12)
    log_odds = np.log(bounded) - np.log1p(-bounded) + evidence
    total = float(weights @ bounded)
    low, high = -float(evidence.max()), -float(evidence.min())  # which give sums below and above the total
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if float(weights @ probability_of(log_odds + middle)) < total:
            low = middle
        else:
            high = middle
        if high - low < 1e-4:
            break
    return probability_of(log_odds + (low + high) / 2)


def likeness_margins(vectors: Floats, relevant: Floats, irrelevant: Floats) -> Doubles:
    """Return half the squared distance to the nearest irrelevant image less that to the nearest relevant one.

    Unlike the classifier's probability this sees one example at a time, so a group that lies apart counts as much
    as a large one.

    Parameters
    ----------
    vectors : (m, d) float32
        Of the images that are compared.
    relevant : (p, d) float32
        Of images judged relevant, p at least 1.
    irrelevant : (n, d) float32
        Of images judged not relevant; without any, only the nearest relevant image counts.

    Returns
    -------
    (m,) float64
    """
    margins = _nearness(vectors, relevant)
    return margins - _nearness(vectors, irrelevant) if len(irrelevant) else margins


def _nearness(vectors: Floats, examples: Floats) -> Doubles:
    """Return the negative half squared distances (m,) to the nearest example."""
    halves = np.einsum("nd,nd->n", examples, examples) / 2
    nearness = -np.einsum("md,md->m", vectors, vectors, dtype=np.float64) / 2
    for start in range(0, len(vectors), CHUNK):
        part = slice(start, start + CHUNK)
        nearness[part] += (vectors[part] @ examples.T - halves).max(axis=1)
    return np.asarray(nearness, np.float64)
