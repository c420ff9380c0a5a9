"""Classifier of a cohort: logistic regression on the vectors of judged images."""

from dataclasses import dataclass

import numpy as np

from cbir.gallery.vector_blocks import Doubles, Floats, Rows, VectorBlocks
from cbir.system.threads import OneBlasThread

PENALTY = 0.3  # C of the regression
BACKGROUND_WEIGHT = 0.3  # of an image that is not judged and counts as not relevant
STEPS = 100


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
