"""RankingSVM (Joachims 2002) without forming pairs: truncated Newton on the primal (Lee & Lin 2014, PRSVM+)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.models.linear.kernel_map import Tuning
from cbir.models.linear.kernel_ranker import Kernel, KernelRanker
from cbir.models.linear.pair_sums import Pairs, Within
from cbir.models.linear.ranking_lists import ListSize, assign_lists

Floats = NDArray[np.float64]

SOLVER_STEPS = 60  # of conjugate gradients per Newton step
PAPER_C = 0.01
HALVINGS = 30
SUFFICIENT = 1e-4  # share of the decrease that the slope predicts (Armijo)


@dataclass(eq=False, repr=False)
class RankingSVM(KernelRanker):
    """min 1/2 |w|^2 + C sum over pairs max(0, 1 - (s_i - s_j))^2, i graded higher than j, within lists.

    With its squared hinge and equal C, this is LinearSVC without intercept on the differences of all pairs. One
    iteration takes O(n log n) time for a fixed number of grades, and memory linear in n.

    Parameters
    ----------
    C : float
        Weight of the whole sum.
    list_size : int, optional
        Images per list; None pairs all images.
    tolerance : float
        Norm of the gradient to stop at, as a share of its initial norm.
    max_iterations : int
        Most Newton steps; `iterations_` is the number of steps done.
    seed : int
        Seed of the lists.
    kernel, tuning
        See `KernelRanker`.
    """

    name: ClassVar[str] = "ranking-svm"

    C: float = PAPER_C
    list_size: ListSize = None
    tolerance: float = 1e-6
    max_iterations: int = 100
    seed: int = 0
    kernel: Kernel = "linear"
    tuning: Tuning | None = None

    def _scale(self, count: int) -> float:
        # n squared errors of images have the slope of the n^2 / 2 squared differences of their pairs, divided by n
        return float(1.0 / np.sqrt(2.0 * PAPER_C * count))

    def _weights(self, Z: Floats, grades: Floats, groups: NDArray[np.int64]) -> Floats:
        if not 0 < self.C < np.inf:
            raise InvalidInput(f"the C of {self.name} must be a number above 0, not {self.C!r}")
        pairs = Pairs(grades, assign_lists(len(Z), self.list_size, np.random.default_rng(self.seed)))
        w, scores = np.zeros(Z.shape[1]), np.zeros(len(Z))
        loss, gradient, active = self._at(pairs, Z, w, scores)
        first = float(np.linalg.norm(gradient))
        self.iterations_ = 0
        while np.linalg.norm(gradient) > self.tolerance * first and self.iterations_ < self.max_iterations:
            step = self._newton(Z, active, gradient)
            along, slope, length = Z @ step, float(gradient @ step), 1.0
            for _ in range(HALVINGS):
                trial = self._at(pairs, Z, w + length * step, scores + length * along)
                if trial[0] <= loss + SUFFICIENT * length * slope:
                    break
                length /= 2.0
            else:
                break  # the limit of floating point
            w, scores = w + length * step, scores + length * along
            loss, gradient, active = trial
            self.iterations_ += 1
        return w

    def _at(self, pairs: Pairs, Z: Floats, w: Floats, scores: Floats) -> tuple[float, Floats, "_Active"]:
        """Return the loss, its gradient (d,) and the pairs within the margin."""
        active = _Active(pairs.within(scores, 1.0))
        loss = 0.5 * float(w @ w) + self.C * active.loss(scores)
        return loss, w + Z.T @ (self.C * active.slopes(scores)), active

    def _newton(self, Z: Floats, active: "_Active", gradient: Floats) -> Floats:
        """Solve H step = -gradient for the step (d,) to a tenth by conjugate gradients."""
        step, residual = np.zeros_like(gradient), -gradient
        direction, size = residual.copy(), float(residual @ residual)
        threshold = 0.01 * size
        for _ in range(SOLVER_STEPS):
            product = direction + Z.T @ (2.0 * self.C * active.times(Z @ direction))
            length = size / float(direction @ product)
            step += length * direction
            residual -= length * product
            before, size = size, float(residual @ residual)
            if size <= threshold:
                break
            direction = residual + (size / before) * direction
        return step


class _Active:
    """Pairs within the margin, with their number per image as the higher and as the lower one."""

    def __init__(self, within: Within) -> None:
        self.within = within
        count = np.ones(within.count)
        self.lower, self.higher = within.of_lower(count), within.of_higher(count)

    def loss(self, scores: Floats) -> float:
        """Compute the sum of (1 - s_i + s_j)^2 over the pairs."""
        separate = self.lower * (1.0 - scores) ** 2 + 2.0 * (1.0 - scores) * self.within.of_lower(scores)
        return float((separate + self.within.of_lower(scores * scores)).sum())

    def slopes(self, scores: Floats) -> Floats:
        """Compute the derivative (n,) of the loss with respect to the `scores`."""
        as_higher = self.lower * (1.0 - scores) + self.within.of_lower(scores)
        as_lower = self.higher * (1.0 + scores) - self.within.of_higher(scores)
        return 2.0 * (as_lower - as_higher)

    def times(self, values: Floats) -> Floats:
        """Compute half the second derivative of the loss times `values` (n,)."""
        partners = self.within.of_lower(values) + self.within.of_higher(values)
        return (self.lower + self.higher) * values - partners
