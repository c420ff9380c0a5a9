"""Linear rankers: RankingSVM without forming pairs, and TopPush, both in linear or nearly linear time."""

from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.models.kernel_ranker import Kernel, KernelRanker, Tuning
from cbir.learn.models.ranking_estimator import LinearRanker, ListSize, Pairs, assign_lists

Floats = NDArray[np.float64]

SOLVER_STEPS = 60  # of conjugate gradients per Newton step
PAPER_C = 0.01
HALVINGS = 30
SUFFICIENT = 1e-4  # share of the decrease that the slope predicts (Armijo)
LOSSES = ("squared-hinge", "hinge")
# widths of the rounded corner of the hinge, each the start for the next
BENDS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


@dataclass(eq=False, repr=False)
class RankingSVM(KernelRanker):
    """min 1/2 |w|^2 + C sum over pairs loss(1 - (s_i - s_j)), i graded higher than j, within lists.

    With equal C this is LinearSVC without intercept on the differences of all pairs. One iteration takes O(n log n)
    time for a fixed number of grades, and memory linear in n.

    Parameters
    ----------
    C : float
        Weight of the whole sum.
    list_size : int, optional
        Images per list; None pairs all images.
    tolerance : float
        Norm of the gradient to stop at, as a share of its initial norm.
    max_iterations : int
        Most Newton steps, with "hinge" for each of seven widths; `iterations_` is the number of steps done.
    seed : int
        Seed of the lists.
    kernel, tuning
        See `KernelRanker`.
    loss : str
        "squared-hinge": max(0, x)^2. "hinge": max(0, x), as in the paper (Huang et al. 2010, eq. 13), with a corner
        that is a parabola from 0 to 0.001.
    """

    name: ClassVar[str] = "ranking-svm"

    C: float = PAPER_C
    list_size: ListSize = None
    tolerance: float = 1e-6
    max_iterations: int = 100
    seed: int = 0
    kernel: Kernel = "linear"
    tuning: Tuning | None = None
    loss: Literal["squared-hinge", "hinge"] = "squared-hinge"

    def _scale(self, count: int) -> float:
        # n squared errors of images have the slope of the n^2 / 2 squared differences of their pairs, divided by n
        return float(1.0 / np.sqrt(2.0 * PAPER_C * count))

    def _weights(self, Z: Floats, grades: Floats, groups: NDArray[np.int64]) -> Floats:
        if not 0 < self.C < np.inf:
            raise InvalidInput(f"the C of {self.name} must be a number above 0, not {self.C!r}")
        if not 0.0 <= self.tolerance < 1.0 or self.max_iterations < 1:
            raise InvalidInput(
                f"the tolerance of {self.name} is at least 0 and below 1, its max_iterations at least 1; not "
                f"{self.tolerance!r} and {self.max_iterations!r}"
            )
        if self.loss not in LOSSES:
            raise InvalidInput(f"the loss of {self.name} is {' or '.join(LOSSES)}, not {self.loss!r}")
        pairs = Pairs(grades, assign_lists(len(Z), self.list_size, np.random.default_rng(self.seed)))
        w, self.iterations_ = np.zeros(Z.shape[1]), 0
        for bend in BENDS if self.loss == "hinge" else (None,):
            w = self._minimise(pairs, Z, w, bend)
        return w

    def _minimise(self, pairs: Pairs, Z: Floats, w: Floats, bend: float | None) -> Floats:
        """Return the best weights (d,), from the start `w` (d,)."""
        first = float(np.linalg.norm(self._at(pairs, Z, np.zeros_like(w), np.zeros(len(Z)), bend)[1]))
        scores = Z @ w
        loss, gradient, active = self._at(pairs, Z, w, scores, bend)
        for _ in range(self.max_iterations):
            if np.linalg.norm(gradient) <= self.tolerance * first:
                break
            step = self._newton(Z, active, gradient)
            along, slope, length = Z @ step, float(gradient @ step), 1.0
            for _ in range(HALVINGS):
                trial = self._at(pairs, Z, w + length * step, scores + length * along, bend)
                if trial[0] <= loss + SUFFICIENT * length * slope:
                    break
                length /= 2.0
            else:
                break  # the limit of floating point
            w, scores = w + length * step, scores + length * along
            loss, gradient, active = trial
            self.iterations_ += 1
        return w

    def _at(
        self, pairs: Pairs, Z: Floats, w: Floats, scores: Floats, bend: float | None
    ) -> tuple[float, Floats, "_PairLoss"]:
        """Return the loss, its gradient (d,) and the sum over pairs."""
        active = _PairLoss(pairs, scores, bend)
        loss = 0.5 * float(w @ w) + self.C * active.loss(scores)
        return loss, w + Z.T @ (self.C * active.slopes(scores)), active

    def _newton(self, Z: Floats, active: "_PairLoss", gradient: Floats) -> Floats:
        """Solve H step = -gradient for the step (d,) to a tenth by conjugate gradients."""
        step, residual = np.zeros_like(gradient), -gradient
        direction, size = residual.copy(), float(residual @ residual)
        threshold = 0.01 * size
        for _ in range(SOLVER_STEPS):
            product = direction + Z.T @ (self.C * active.times(Z @ direction))
            length = size / float(direction @ product)
            step += length * direction
            residual -= length * product
            before, size = size, float(residual @ residual)
            if size <= threshold:
                break
            direction = residual + (size / before) * direction
        return step


class _PairLoss:
    """Sum over pairs of max(0, x)^2; with a bend b of (max(0, x)^2 - max(0, x - b)^2) / (2 b), a rounded hinge."""

    def __init__(self, pairs: Pairs, scores: Floats, bend: float | None) -> None:
        self.parts = [(1.0 if bend is None else 0.5 / bend, _Active(pairs, scores, 1.0))]
        if bend is not None:
            self.parts.append((-0.5 / bend, _Active(pairs, scores, 1.0 - bend)))

    def loss(self, scores: Floats) -> float:
        """Compute the sum."""
        return sum(factor * part.loss(scores) for factor, part in self.parts)

    def slopes(self, scores: Floats) -> Floats:
        """Compute the derivative (n,) of the sum with respect to the `scores`."""
        return cast(Floats, sum(factor * part.slopes(scores) for factor, part in self.parts))

    def times(self, values: Floats) -> Floats:
        """Compute the second derivative of the sum times `values` (n,)."""
        return cast(Floats, sum(factor * part.times(values) for factor, part in self.parts))


class _Active:
    """Pairs within a margin, with their number per image as the higher and as the lower one."""

    def __init__(self, pairs: Pairs, scores: Floats, margin: float) -> None:
        self.margin, self.within = margin, pairs.within(scores, margin)
        count = np.ones(self.within.count)
        self.lower, self.higher = self.within.of_lower(count), self.within.of_higher(count)

    def loss(self, scores: Floats) -> float:
        """Compute the sum of (margin - s_i + s_j)^2 over the pairs."""
        missing = self.margin - scores
        separate = self.lower * missing**2 + 2.0 * missing * self.within.of_lower(scores)
        return float((separate + self.within.of_lower(scores * scores)).sum())

    def slopes(self, scores: Floats) -> Floats:
        """Compute the derivative (n,) of the loss with respect to the `scores`."""
        as_higher = self.lower * (self.margin - scores) + self.within.of_lower(scores)
        as_lower = self.higher * (self.margin + scores) - self.within.of_higher(scores)
        return 2.0 * (as_lower - as_higher)

    def times(self, values: Floats) -> Floats:
        """Compute the second derivative of the loss times `values` (n,)."""
        partners = self.within.of_lower(values) + self.within.of_higher(values)
        return 2.0 * ((self.lower + self.higher) * values - partners)


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
