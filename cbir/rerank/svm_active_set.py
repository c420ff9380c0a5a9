"""Many tiny SVMs by linear equations: guess which multipliers are at a bound, and correct the guess."""

import numpy as np
from numpy.typing import NDArray

from cbir.gallery.vector_blocks import Doubles

Truths = NDArray[np.bool_]

ROUNDS = 8  # of corrections; 1 to 4 are enough unless samples are equal or nearly so
NEGLIGIBLE = 1e-9  # a multiplier within this share of its bound of either end is open to rounding
EXACT = 1e-9  # largest error of a margin, as a share of the largest multiplier


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
        edge = NEGLIGIBLE * bounds
        at_edge = ~fixed & ((multipliers < edge) | (multipliers > bounds - edge))
        solved &= (error <= EXACT * (1.0 + multipliers.max(axis=1))) & ~(none_free | at_edge.any(axis=1))
    return np.where(at_low, 0.0, signs * np.minimum(multipliers, bounds)), bias, solved
