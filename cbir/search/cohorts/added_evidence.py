"""Probabilities to which evidence is added that the classifier does not use."""

import numpy as np

from cbir.gallery.vector_blocks import Doubles
from cbir.search.cohorts.relevance_model import probability_of

STEPS = 50  # each halves what is left of the interval, at first as long as the evidence's range


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
    for _ in range(STEPS):
        middle = (low + high) / 2
        if float(weights @ probability_of(log_odds + middle)) < total:
            low = middle
        else:
            high = middle
        if high - low < 1e-4:
            break
    return probability_of(log_odds + (low + high) / 2)
