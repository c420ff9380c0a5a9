"""Many tiny support vector machines at once: C-SVC with an upper bound per sample."""

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Doubles
from cbir.system.threads import checkpoint

Truths = NDArray[np.bool_]

ITERATIONS = 60  # a bound, not a setting: 8 to 25 are enough
TOLERANCE = 1e-12  # of the complementarity, with multipliers scaled to [0, 1]
RESIDUAL = 1e-10  # of the gradient, as a share of its size at the start
NEGLIGIBLE = 1e-9  # a multiplier below this share of its bound belongs to no support vector
STEP = 0.995  # share of the way to the boundary

ROUNDS = 8  # of corrections; 1 to 4 are enough unless samples are equal or nearly so
UNDECIDED = 1e-9  # a multiplier within this share of its bound of either end is open to rounding
EXACT = 1e-9  # largest error of a margin, as a share of the largest multiplier


def solve_svms(kernel: Doubles, signs: Doubles, bounds: Doubles) -> tuple[Doubles, Doubles]:
    """Train T SVMs; f_t(x) = sum_i coefficients[t, i] k(x, x_ti) + bias[t].

    min 1/2 a'Qa - sum a, Q_ij = y_i y_j k(x_i, x_j), 0 <= a_i <= bounds_i, y'a = 0: the dual of the C-SVC, and
    with bounds C mu_i of the fuzzy SVM (Lin & Wang 2002). Active sets find nearly all; the rest, such as those with
    equal samples (a singular Q), are left to a primal-dual interior point method.

    Parameters
    ----------
    kernel : (T, m, m) float64
        Positive semi-definite kernel matrices.
    signs : (m,) float64
        1 and -1, both present.
    bounds : (T, m) float64
        Upper bounds, above 0.

    Returns
    -------
    coefficients : (T, m) float64
        y a, exactly 0 for samples that are no support vectors.
    bias : (T,) float64
        By the rule of LIBSVM (Chang & Lin 2011, section 4.1.5): the mean over the samples strictly between their
        bounds, or the middle of the interval that the others leave.
    """
    coefficients, bias, solved = solve_by_active_sets(kernel, signs, bounds)
    if not solved.all():
        rest = ~solved
        coefficients[rest], bias[rest] = solve_by_interior_points(kernel[rest], signs, bounds[rest])
    return coefficients, bias


def solve_by_interior_points(kernel: Doubles, signs: Doubles, bounds: Doubles) -> tuple[Doubles, Doubles]:
    """Train T SVMs by a primal-dual interior point method with Mehrotra's predictor and corrector.

    Parameters
    ----------
    kernel, signs, bounds
        As in `solve_svms`.

    Returns
    -------
    coefficients, bias
        As in `solve_svms`.
    """
    scaled = signs * bounds
    shares, at_low, at_high = _shares(scaled[:, :, None] * kernel * scaled[:, None, :], bounds, scaled)
    coefficients = scaled * shares
    needed = signs - _times(kernel, coefficients)  # the bias at which a sample lies on its margin
    return coefficients, _bias(needed, signs > 0.0, at_low, at_high)


def _bias(needed: Doubles, positive: Truths, at_low: Truths, at_high: Truths) -> Doubles:
    """Return the bias (T,) from the one that each sample (T, m) needs; multipliers may be at 0 or at their bound."""
    free = ~(at_low | at_high)
    count = free.sum(axis=1)
    mean = (needed * free).sum(axis=1) / np.maximum(count, 1)
    # A positive at 0 is beyond its margin, one at its bound on the wrong side of it; negatives mirror that.
    least = np.where(at_low == positive, needed, -np.inf).max(axis=1)
    most = np.where(at_low != positive, needed, np.inf).min(axis=1)
    middle = least / 2.0 + most / 2.0 if np.isfinite(least).all() and np.isfinite(most).all() else mean
    return np.asarray(np.where(count > 0, mean, middle))


class _Point:
    """State of T interior point iterations: a, its distance to 1, and the duals of both, all above 0."""

    def __init__(self, Q: Doubles, linear: Doubles) -> None:
        gradient = 0.5 * Q.sum(axis=2) - linear
        self.size = np.abs(gradient).max(axis=1, keepdims=True) + linear.max(axis=1, keepdims=True)
        self.low = np.full(linear.shape, 0.5)
        self.high = self.low.copy()
        self.low_dual = np.maximum(gradient, 0.0) + 0.1 * self.size
        self.high_dual = np.maximum(-gradient, 0.0) + 0.1 * self.size
        self.multiplier = np.zeros((len(linear), 1))

    def move(self, length: Doubles, direction: tuple[Doubles, Doubles, Doubles, Doubles]) -> None:
        step, shift, low_step, high_step = direction
        self.low += length * step
        self.high -= length * step
        self.multiplier += length * shift
        self.low_dual += length * low_step
        self.high_dual += length * high_step

    def reach(self, direction: tuple[Doubles, Doubles, Doubles, Doubles]) -> Doubles:
        """Return the longest step (T, 1), at most 1, that keeps all values non-negative."""
        step, _, low_step, high_step = direction
        ratios = [-step / self.low, step / self.high, -low_step / self.low_dual, -high_step / self.high_dual]
        steepest = np.maximum.reduce(ratios).max(axis=1, keepdims=True)
        return np.asarray(1.0 / np.maximum(steepest, 1.0))

    def lowest(self, direction: tuple[Doubles, Doubles, Doubles, Doubles]) -> Doubles:
        """Return the step (T, 1) with the smallest gap, a parabola along the direction; 1 where it only falls."""
        step, _, low_step, high_step = direction
        slope = self.low * low_step + self.low_dual * step + self.high * high_step - self.high_dual * step
        bend = step * (low_step - high_step)
        steepness, curvature = slope.sum(axis=1, keepdims=True), bend.sum(axis=1, keepdims=True)
        ratio = -steepness / (2.0 * np.maximum(curvature, 1e-300))
        return np.where(ratio > 0.0, ratio, 1.0)


def _shares(Q: Doubles, linear: Doubles, equality: Doubles) -> tuple[Doubles, Truths, Truths]:
    """Minimise 1/2 a'Qa - linear'a over 0 <= a <= 1, equality'a = 0, for T problems at once.

    Return a (T, m), and masks of its values that are at 0 and at 1.
    """
    at = _Point(Q, linear)
    enough = TOLERANCE * linear.min(axis=1, keepdims=True)
    # Keeps a singular Q invertible: a proximal term in the step, not in the problem.
    softest = 1e-9 * Q.diagonal(axis1=1, axis2=2).max(axis=1, keepdims=True)
    for _ in range(ITERATIONS):
        checkpoint()
        residual = _times(Q, at.low) - linear - equality * at.multiplier - at.low_dual + at.high_dual
        gap = (at.low * at.low_dual + at.high * at.high_dual).mean(axis=1, keepdims=True) / 2.0
        unfinished = (gap > enough) | (np.abs(residual).max(axis=1, keepdims=True) > RESIDUAL * at.size)
        if not unfinished.any():
            break
        _iterate(at, Q, equality, residual, gap, softest, unfinished)
    # Of a multiplier and the slack of its margin one goes to 0: the smaller one.
    at_low, at_high = at.low * linear < at.low_dual, at.high * linear < at.high_dual
    return np.where(at.low < NEGLIGIBLE, 0.0, np.minimum(at.low, 1.0)), at_low, at_high


def _iterate(
    at: _Point,
    Q: Doubles,
    equality: Doubles,
    residual: Doubles,
    gap: Doubles,
    softest: Doubles,
    moving: Truths,
) -> None:
    """Take a predictor and corrector step in the problems that are `moving`."""
    diagonal = np.maximum(at.low_dual / at.low + at.high_dual / at.high, softest)
    # Inverted in a scaling whose eigenvalues are at least 1.
    scale = 1.0 / np.sqrt(diagonal)
    scales = scale[:, :, None] * scale[:, None, :]
    inverse = np.linalg.inv(Q * scales + np.eye(Q.shape[1])) * scales
    along = _times(inverse, equality)
    bend = (equality * along).sum(axis=1, keepdims=True)
    imbalance = (equality * at.low).sum(axis=1, keepdims=True)

    def newton(low_goal: Doubles, high_goal: Doubles) -> tuple[Doubles, Doubles, Doubles, Doubles]:
        step = _times(inverse, low_goal / at.low - high_goal / at.high - residual)
        shift = -(imbalance + (equality * step).sum(axis=1, keepdims=True)) / bend
        step += along * shift
        low_step = (low_goal - at.low_dual * step) / at.low
        return step, shift, low_step, (high_goal + at.high_dual * step) / at.high

    low_gap, high_gap = at.low * at.low_dual, at.high * at.high_dual
    predictor = newton(-low_gap, -high_gap)
    step, _, low_step, high_step = predictor
    length = at.reach(predictor)
    reached = (at.low + length * step) * (at.low_dual + length * low_step)
    reached += (at.high - length * step) * (at.high_dual + length * high_step)
    centre = gap * (reached.mean(axis=1, keepdims=True) / (2.0 * gap)) ** 3
    corrector = newton(centre - low_gap - step * low_step, centre - high_gap + step * high_step)
    # Not beyond where the gap is smallest: the second order correction can otherwise send the steps in circles.
    at.move(np.minimum(STEP * at.reach(corrector), at.lowest(corrector)) * moving, corrector)


def _times(matrices: Doubles, vectors: Doubles) -> Doubles:
    """Multiply matrices (T, m, m) by vectors (T, m)."""
    return (matrices @ vectors[:, :, None])[:, :, 0]


def solve_by_active_sets(kernel: Doubles, signs: Doubles, bounds: Doubles) -> tuple[Doubles, Doubles, Truths]:
    """Solve the duals of T SVMs by a primal-dual active set method (Hintermüller, Ito & Kunisch 2002).

    Samples strictly between their bounds lie on their margin: K c + b = y for those, with sum c = 0. The first guess
    is that all do. A round costs one linear system for each SVM, a fraction of an interior point iteration.

    Parameters
    ----------
    kernel : (T, m, m) float64
        Kernel matrices.
    signs : (m,) float64
        1 and -1, both present.
    bounds : (T, m) float64
        Upper bounds of the multipliers, above 0.

    Returns
    -------
    coefficients : (T, m) float64
        y a.
    bias : (T,) float64
    solved : (T,) bool
        Whether the conditions of the optimum hold; without them the other two mean nothing. They are not reached
        where no sample is free, or where equal samples leave the multipliers open.
    """
    svms, m = bounds.shape
    systems, right = np.zeros((svms, m + 1, m + 1)), np.zeros((svms, m + 1, 1))
    coefficients, bias = np.zeros((svms, m)), np.zeros(svms)
    at_low, at_high = np.zeros((2, svms, m), bool)
    systems[:, m, :m] = 1.0
    with np.errstate(over="ignore", invalid="ignore"):  # of a singular system, which is not solved
        for _ in range(ROUNDS):
            fixed = at_low | at_high
            none_free = fixed.all(axis=1)
            systems[:, :m, :m], systems[:, :m, m], systems[:, m, m] = kernel, 1.0, none_free
            systems[:, :m][fixed] = np.eye(m, m + 1)[np.nonzero(fixed)[1]]
            right[:, :m, 0] = np.where(fixed, signs * bounds * at_high, signs)
            try:
                solution = np.linalg.solve(systems, right)
            except np.linalg.LinAlgError:
                return coefficients, bias, np.zeros(svms, bool)
            coefficients, bias = solution[:, :m, 0], solution[:, m, 0]
            # Above 0 where a sample is within its margin, so that its multiplier should grow.
            lack = 1.0 - signs * ((kernel @ solution[:, :m])[:, :, 0] + bias[:, None])
            multipliers = signs * coefficients
            low = np.where(fixed, at_low & (lack <= 0.0), multipliers < 0.0)
            high = np.where(fixed, at_high & (lack >= 0.0), multipliers > bounds)
            solved = ((low == at_low) & (high == at_high)).all(axis=1)
            if solved.all():
                break
            at_low, at_high = low, high
        error = np.abs(np.where(fixed, 0.0, lack)).max(axis=1)
        edge = UNDECIDED * bounds
        at_edge = ~fixed & ((multipliers < edge) | (multipliers > bounds - edge))
        solved &= (error <= EXACT * (1.0 + multipliers.max(axis=1))) & ~(none_free | at_edge.any(axis=1))
    return np.where(at_low, 0.0, signs * np.minimum(multipliers, bounds)), bias, solved
