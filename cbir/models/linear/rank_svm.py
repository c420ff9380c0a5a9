"""RankSVM: a linear SVM on the differences of positives and negatives, without forming them."""

import numpy as np
from scipy.optimize import minimize

from cbir.errors import InvalidInput
from cbir.models.linear.base import Floats, LinearRanker


class RankSvm(LinearRanker):
    """1/2 |w|^2 + C sum over all pairs of max(0, 1 - w . (x+ - x-))^2 (Joachims 2002, with the squared hinge).

    The squared hinge is smooth, so that Newton's method finds the one minimum: Lee & Lin 2014, Large-scale linear
    RankSVM. The pairs that count are found by sorting scores: O((m + n) (d + log(m + n))) a step.
    """

    def __init__(self, C: float = 1.0, tolerance: float = 1e-6, steps: int = 1000) -> None:
        """tolerance: of the gradient's norm, against that at w = 0. Raises InvalidInput for what is not above 0."""
        if not (C > 0 and tolerance > 0 and steps > 0):
            raise InvalidInput("C, tolerance and steps of RankSVM must be above 0")
        self.C = C
        self.tolerance = tolerance
        self.steps = steps

    def _learn(self, positives: Floats, negatives: Floats) -> Floats:
        vectors = np.concatenate([positives, negatives])
        m = len(positives)

        def value(w: Floats) -> tuple[float, Floats]:
            scores = vectors @ w
            loss, slopes = pair_losses(scores[:m], scores[m:])
            return float(w @ w / 2 + self.C * loss), w + self.C * (slopes @ vectors)

        def curve(w: Floats, direction: Floats) -> Floats:
            scores, along = vectors @ w, vectors @ direction
            return direction + self.C * (_curvature(scores[:m], scores[m:], along[:m], along[m:]) @ vectors)

        start = np.zeros(vectors.shape[1])
        gradient = float(np.linalg.norm(value(start)[1]))
        if gradient == 0.0:  # all alike
            return start
        found = minimize(
            value, start, jac=True, hessp=curve, method="trust-ncg",
            options={"gtol": self.tolerance * gradient, "maxiter": self.steps, "max_trust_radius": 1e6},
        )  # fmt: skip
        return np.asarray(found.x)


def pair_losses(positives: Floats, negatives: Floats) -> tuple[float, Floats]:
    """Sum over all pairs of max(0, 1 - s+ + s-)^2 for scores (m,) and (n,), and its slopes (m + n,)."""
    shift = positives.mean()  # sums of squares keep their digits near 0
    positives, negatives = 1 - (positives - shift), negatives - shift
    order, below = _active(positives, negatives)
    counts = len(negatives) - below
    sums = _after(negatives[order])[below]
    squares = _after(negatives[order] ** 2)[below]
    loss = float((counts * positives**2 + 2 * positives * sums + squares).sum())
    of_positives = -2 * (counts * positives + sums)
    order, above = _active(negatives, positives)
    of_negatives = 2 * ((len(positives) - above) * negatives + _after(positives[order])[above])
    return loss, np.concatenate([of_positives, of_negatives])


def _curvature(positives: Floats, negatives: Floats, up: Floats, down: Floats) -> Floats:
    """The second derivative of `pair_losses` applied to a direction: `up` (m,) and `down` (n,) in scores."""
    shift = positives.mean()
    positives, negatives = 1 - (positives - shift), negatives - shift
    order, below = _active(positives, negatives)
    of_positives = 2 * ((len(negatives) - below) * up - _after(down[order])[below])
    order, above = _active(negatives, positives)
    of_negatives = 2 * ((len(positives) - above) * down - _after(up[order])[above])
    return np.concatenate([of_positives, of_negatives])


def _active(of: Floats, among: Floats) -> tuple[np.ndarray, np.ndarray]:
    """The order of `among`, and for each of `of` the place in it from which on of + among > 0."""
    order = np.argsort(among, kind="stable")
    return order, np.searchsorted(among[order], -of, side="right")


def _after(values: Floats) -> Floats:
    """(n + 1,): the sum of the values from each place on, the last one 0."""
    return np.concatenate([values[::-1].cumsum()[::-1], [0.0]])
