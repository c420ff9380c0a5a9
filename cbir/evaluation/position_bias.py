"""Position bias of clicks: how much less often an answer is looked at the further down it stands."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ASSUMED_ETA = 1.0  # of Joachims et al. (2017), where the log cannot tell
LEAST_CLICKS = 30  # on images seen at several ranks, from which eta is estimated
STEPS = 50  # of Newton's method
WIDEST = 2.0  # half the interval of eta, from which on the clicks do not determine it
NORMAL_95 = 1.959963984540054  # quantile .975


@dataclass(frozen=True)
class PositionBias:
    """Propensity of rank r, the probability to be looked at relative to rank 1: r to the power of -eta.

    low, high: 95 % interval of eta, None if it was stated or assumed. clicks: on images that were shown at several
    ranks. origin: "estimated", "stated" or "assumed".
    """

    eta: float
    low: float | None
    high: float | None
    clicks: int
    origin: str

    def propensities(self, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the propensities of `ranks`, at least 1; none is larger than 1."""
        return np.asarray(np.minimum(np.asarray(ranks, np.float64) ** -self.eta, 1.0))


def estimate_position_bias(shows: Iterable[Iterable[tuple[int, bool]]]) -> PositionBias:
    """Estimate eta from images that were shown for the same query at several ranks.

    Different methods, or a changed collection, show an image at different ranks without its relevance changing, which
    tells the effect of the rank apart (Agarwal et al., Estimating Position Bias without Intrusive Interventions,
    2019).
    Clicks are taken as Poisson with the mean (relevance of the image) x rank^-eta; given the number of clicks on an
    image their ranks are multinomial, and the relevance drops out (Hausman, Hall & Griliches 1984, fixed effects).

    Parameters
    ----------
    shows : iterable of iterables of (rank, clicked)
        The times that one image was shown for one query; ranks from 1.

    Returns
    -------
    PositionBias
        With ASSUMED_ETA if fewer than LEAST_CLICKS clicks are on images that were shown at several ranks, or if these
        do not determine eta: with all clicks on the upper one of two ranks, any larger eta is more likely.
    """
    groups = [list(group) for group in shows]
    informative = [group for group in groups if len({rank for rank, _ in group}) > 1]
    logs = [np.log([rank for rank, _ in group]) for group in informative]
    clicks = [np.array([clicked for _, clicked in group], np.float64) for group in informative]
    used = [(x, y) for x, y in zip(logs, clicks, strict=True) if y.sum()]
    total = int(sum(y.sum() for _, y in used))
    if total < LEAST_CLICKS:
        return PositionBias(ASSUMED_ETA, None, None, total, "assumed")
    eta = 0.0
    for _ in range(STEPS):  # the log-likelihood is concave in eta
        slope, curvature = _derivatives(used, eta)
        step = float(np.clip(slope / curvature, -1, 1)) if curvature > 0 else 0.0
        eta += step
        if abs(step) < 1e-10:
            break
    curvature = _derivatives(used, eta)[1]
    if curvature < (NORMAL_95 / WIDEST) ** 2:
        return PositionBias(ASSUMED_ETA, None, None, total, "assumed")
    error = NORMAL_95 / np.sqrt(curvature)
    return PositionBias(eta, float(eta - error), float(eta + error), total, "estimated")


def _derivatives(
    groups: Iterable[tuple[NDArray[np.float64], NDArray[np.float64]]], eta: float
) -> tuple[float, float]:
    """Return the slope of the log-likelihood at eta, and the negative curvature."""
    slope = curvature = 0.0
    for x, y in groups:
        weights = np.exp(-eta * (x - x.min()))
        weights /= weights.sum()
        mean = float(weights @ x)
        slope += float(y.sum() * mean - y @ x)
        curvature += float(y.sum() * (weights @ (x - mean) ** 2))
    return slope, curvature


def group_shows(shows: Iterable[tuple[str, str, int, bool]]) -> list[list[tuple[int, bool]]]:
    """Group (query, image, rank, clicked) by query and image."""
    groups: dict[tuple[str, str], list[tuple[int, bool]]] = defaultdict(list)
    for query, image, rank, clicked in shows:
        groups[query, image].append((rank, clicked))
    return list(groups.values())
