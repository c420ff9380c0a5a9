"""TopPush: a linear ranker that pushes positives above the highest negative, in linear time."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.models.linear.ranking_estimator import LinearRanker

Floats = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class TopPush(LinearRanker):
    """lambda/2 |w|^2 + 1/m sum over positives of max(0, 1 + max_j w . x-_j - w . x+_i)^2 (Li, Jin & Zhou 2014).

    `fit(X, y)` takes features (n, d) and two grades (n,), of which the larger is positive; `coef_` is w, for
    standardised features. Solved in the dual, with one variable per image, by Nesterov's accelerated projected
    gradient with restarts. Each step takes O(n (d + log n)) time; memory is O(n d).

    Parameters
    ----------
    regularisation : float
        lambda.
    tolerance : float
        Difference of primal and dual to stop at, as a share of the primal; `gap_` is the one reached.
    max_iterations : int
        Most steps.
    """

    name: ClassVar[str] = "top-push"
    list_size = None  # `score` is the NDCG of all images
    seed = 0

    regularisation: float = 1.0
    tolerance: float = 1e-4
    max_iterations: int = 5000

    def _learn(self, Z: Floats, grades: Floats, groups: NDArray[np.int64]) -> None:
        if not (0 < self.regularisation < np.inf and self.tolerance > 0 and self.max_iterations > 0):
            raise InvalidInput("regularisation, tolerance and max_iterations of top-push must be above 0")
        if len(np.unique(grades)) != 2:
            raise InvalidInput("top-push ranks positives above negatives; it takes two grades, not more")
        positive = grades == grades.max()
        self.coef_ = self._solve(Z[positive], Z[~positive])

    def _solve(self, positives: Floats, negatives: Floats) -> Floats:
        m, scale = len(positives), self.regularisation * len(positives)
        signed = np.concatenate([positives, -negatives])
        steepest = np.linalg.eigvalsh(_smaller_gram(signed))[-1] / scale + 0.5
        at = np.zeros(len(signed))
        look, momentum = at, 1.0
        best, self.gap_ = np.zeros(signed.shape[1]), np.inf
        for step in range(self.max_iterations):
            w = look @ signed / scale
            slope = signed @ w
            slope[:m] += look[:m] / 2 - 1
            moved = project_dual(look - slope / steepest, m)
            if (look - moved) @ (moved - at) > 0:  # momentum increases the loss (O'Donoghue & Candes 2015)
                look, momentum = at, 1.0
                continue
            faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            look = moved + (momentum - 1) / faster * (moved - at)
            at, momentum = moved, faster
            if step % 10 == 0 or step == self.max_iterations - 1:
                w = at @ signed / scale
                gap = self._gap(w, at, m, signed)
                if gap < self.gap_:
                    best, self.gap_ = w, gap
                if gap <= self.tolerance:
                    break
        return best

    def _gap(self, w: Floats, dual: Floats, m: int, signed: Floats) -> float:
        """Bound the distance of the objective at `w` from its minimum, as a share of the objective."""
        scores = signed @ w
        losses = np.maximum(0, 1 - scores[m:].min() - scores[:m]) ** 2
        primal = self.regularisation / 2 * (w @ w) + losses.mean()
        alpha = dual[:m]
        lower = -self.regularisation / 2 * (w @ w) + (alpha - alpha**2 / 4).mean()
        return float((primal - lower) / primal)


def _smaller_gram(vectors: Floats) -> Floats:
    """Return the smaller Gram matrix, of features or of images; both have the same largest eigenvalue."""
    rows, columns = vectors.shape
    return vectors.T @ vectors if columns <= rows else vectors @ vectors.T


def project_dual(point: Floats, m: int) -> Floats:
    """Project `point` to nonnegative numbers, the first `m` with the same sum as the others.

    The result is max(0, a - t) and max(0, b + t) for the only t with equal sums. The difference of the sums falls
    with t and is linear between corners at a and -b.
    """
    first, others = np.sort(point[:m]), np.sort(-point[m:])
    corners = np.sort(np.concatenate([first, others]))
    behind = np.concatenate([first[::-1].cumsum()[::-1], [0.0]])  # sums of the values from an index on
    before = np.concatenate([[0.0], others.cumsum()])
    larger = np.searchsorted(first, corners, side="right")
    smaller = np.searchsorted(others, corners, side="left")
    difference = behind[larger] - (m - larger) * corners - (smaller * corners - before[smaller])
    after = int(np.searchsorted(-difference, 0.0))  # the first corner with a difference of at most 0
    corner = corners[min(after, len(corners) - 1)]  # but for rounding, that is so at the last one
    higher = np.searchsorted(first, corner, side="left")  # terms above 0 on the piece that ends at the corner
    lower = np.searchsorted(others, corner, side="left")
    t = (behind[higher] + before[lower]) / max(m - higher + lower, 1)
    return np.concatenate([np.maximum(0, point[:m] - t), np.maximum(0, point[m:] + t)])
