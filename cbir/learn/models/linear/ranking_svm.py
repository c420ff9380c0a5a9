"""RankingSVM (Joachims 2002) without forming pairs: truncated Newton on the primal (Lee & Lin 2014, PRSVM+)."""

from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.models.linear.kernel_ranker import Kernel, KernelRanker, Tuning
from cbir.learn.models.linear.ranking_estimator import ListSize, Pairs, assign_lists

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
