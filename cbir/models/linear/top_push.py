"""TopPush: a linear ranker that pushes positives above the highest negative, in linear time."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.models.linear.ranking_estimator import LinearRanker

Floats = NDArray[np.float64]


class TopPush(LinearRanker):
    """lambda/2 |w|^2 + 1/m sum over positives of max(0, 1 + max_j w . x-_j - w . x+_i)^2 (Li, Jin & Zhou 2014).

    `fit(X, y)` takes features (n, d) and two grades (n,), of which the larger is positive; `coef_` is w, of
    standardised features. Solved in its dual, which has one variable an image, by Nesterov's accelerated projected
    gradient; momentum is dropped where it leads uphill. Each step is O(n (d + log n)), memory O(n d).

    regularisation: lambda. It stops where primal and dual differ by less than `tolerance` of the primal, or after
    `max_iterations`; `gap_` tells which difference was reached.
    """

    name: ClassVar[str] = "top-push"
    list_size = None  # its score is the NDCG of all
    seed = 0

    def __init__(
        self, regularisation: float = 1.0, tolerance: float = 1e-4, max_iterations: int = 5000
    ) -> None:
        self.regularisation = regularisation
        self.tolerance = tolerance
        self.max_iterations = max_iterations

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
            if (look - moved) @ (moved - at) > 0:  # momentum leads uphill (O'Donoghue & Candes 2015)
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
        """How far above the minimum the objective at w may be, as a share of it."""
        scores = signed @ w
        losses = np.maximum(0, 1 - scores[m:].min() - scores[:m]) ** 2
        primal = self.regularisation / 2 * (w @ w) + losses.mean()
        alpha = dual[:m]
        lower = -self.regularisation / 2 * (w @ w) + (alpha - alpha**2 / 4).mean()
        return float((primal - lower) / primal)


def _smaller_gram(vectors: Floats) -> Floats:
    """The matrix of inner products with the same greatest eigenvalue, of features or of images."""
    rows, columns = vectors.shape
    return vectors.T @ vectors if columns <= rows else vectors @ vectors.T


def project_dual(point: Floats, m: int) -> Floats:
    """The nearest point whose numbers are all at least 0, its first m adding up to as much as the others.

    That is max(0, a - t) and max(0, b + t) for the one t at which the sums agree.
    The difference of the sums falls with t in straight pieces that meet at a and at -b.
    """
    first, others = np.sort(point[:m]), np.sort(-point[m:])
    corners = np.sort(np.concatenate([first, others]))
    behind = np.concatenate([first[::-1].cumsum()[::-1], [0.0]])  # sums of the values from a place on
    before = np.concatenate([[0.0], others.cumsum()])
    larger = np.searchsorted(first, corners, side="right")
    smaller = np.searchsorted(others, corners, side="left")
    difference = behind[larger] - (m - larger) * corners - (smaller * corners - before[smaller])
    after = int(np.searchsorted(-difference, 0.0))  # the first corner at which the sum is not above 0
    corner = corners[min(after, len(corners) - 1)]  # rounding apart, it is not above 0 at the last one
    higher = np.searchsorted(first, corner, side="left")  # what is above 0 on the piece that ends there
    lower = np.searchsorted(others, corner, side="left")
    t = (behind[higher] + before[lower]) / max(m - higher + lower, 1)
    return np.concatenate([np.maximum(0, point[:m] - t), np.maximum(0, point[m:] + t)])
