"""Thresholds between grades on scores of left-out images, decimal grades between them, agreement of grades."""

from dataclasses import dataclass, replace
from typing import TypedDict, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-9


class GradeAgreement(TypedDict):
    """Shares of grades within 0.5, within 1 and exact; mean absolute error; quadratic weighted kappa; NDCG."""

    within_half: float
    within_one: float
    exact: float
    mae: float
    kappa: float
    ndcg: float


def nearest_level(grades: Floats, levels: Floats) -> Floats:
    """Round decimal `grades` (n,) to the nearest of ascending `levels`, ties upwards."""
    return levels[np.searchsorted((levels[1:] + levels[:-1]) / 2.0, grades, "right")]


def quadratic_kappa(first: Floats, second: Floats) -> float:
    """Compute Cohen's kappa of grades `first` (n,) and `second` (n,) with quadratic weights, -1 to 1.

    It is 1 less the mean squared difference over that of grades paired at random (Cohen 1968); nan if all grades are
    equal or there are none. scikit-learn weighs ranks of the levels that occur, which differs if grades are not
    evenly spaced.
    """
    if len(np.unique([first, second])) < 2:
        return float("nan")
    chance = first.var() + second.var() + (first.mean() - second.mean()) ** 2
    return 1.0 - float(np.mean((first - second) ** 2) / chance) if chance > 0 else float("nan")


def measure_agreement(predicted: Floats, grades: Floats, levels: Floats, ndcg: float) -> GradeAgreement:
    """Compare predicted with true grades.

    Parameters
    ----------
    predicted : (n,) float64
        Decimal grades.
    grades : (n,) float64
        True grades.
    levels : (m,) float64
        All grades, ascending; exact agreement and kappa use predictions rounded to them.
    ndcg : float
        NDCG of the scores, which is passed through.
    """
    errors = np.abs(predicted - grades)
    rounded = nearest_level(predicted, levels)
    return {
        "within_half": float((errors <= 0.5 + ROUNDING).mean()),
        "within_one": float((errors <= 1.0 + ROUNDING).mean()),
        "exact": float((rounded == grades).mean()),
        "mae": float(errors.mean()),
        "kappa": quadratic_kappa(rounded, grades),
        "ndcg": ndcg,
    }


MOST_LEVELS = 20
FEWEST_IMAGES = 40
FEWEST_PER_LEVEL = 5
CANDIDATES = 100  # quantiles of the scores that a threshold may take
ROUNDS = 10  # at most
MOST_STRETCHED = 2.0
FLAT = 0.8  # of the way from a grade to the threshold next to it


@dataclass(frozen=True, eq=False)
class GradeScale:
    """A decimal grade as a function of the score, constant beyond both ends.

    Halfway between two thresholds, and up to four fifths of the way from there to either, it is the grade itself,
    which has the least error; from there it rises linearly, to the mean of two grades at a threshold.

    Attributes
    ----------
    scores : (m + 1,) float64
        Ascending: a score typical of the lowest of m grades, the m - 1 thresholds, one typical of the highest.
    levels : (m,) float64
        The grades, ascending.
    half_widths : (m,) float64, optional
        Half the width of the interval around a grade that is rounded to each of the m grades.
    """

    scores: Floats
    levels: Floats
    half_widths: Floats | None = None

    def grades(self, scores: Floats) -> Floats:
        """Return decimal grades (n,) of `scores` (n,); rounded, they are the grades between the thresholds."""
        middles = (self.levels[1:] + self.levels[:-1]) / 2.0
        limits = np.concatenate([self.levels[:1], middles, self.levels[-1:]])
        regions = self._regions(scores)
        nearest = self.levels[regions]
        offsets = np.interp(scores, self.scores, limits) - nearest
        reach = np.where(offsets < 0.0, nearest - limits[regions], limits[regions + 1] - nearest)
        beyond = np.maximum(np.abs(offsets) - FLAT * reach, 0.0) / (1.0 - FLAT)
        return cast(Floats, nearest + np.sign(offsets) * beyond)

    def errors(self, scores: Floats) -> Floats:
        """Return half the widths (n,) of the intervals of `scores` (n,); nan without intervals."""
        if self.half_widths is None:
            return np.full(len(scores), np.nan)
        return self.half_widths[self._regions(scores)]

    def with_intervals(self, scores: Floats, grades: Floats, coverage: float) -> "GradeScale":
        """Return the scale with intervals that cover `coverage` of the grades in each region, on average.

        Parameters
        ----------
        scores : (n,) float64
            Scores of images by rankers that were fitted without them.
        grades : (n,) float64
            Their grades.
        coverage : float
            From 0 to 1.
        """
        errors, regions = np.abs(self.grades(scores) - grades), self._regions(scores)
        everywhere = min(half_width(errors, coverage), float(np.ptp(grades)))
        widths = [half_width(errors[regions == region], coverage) for region in range(len(self.scores) - 1)]
        return replace(self, half_widths=np.where(np.isfinite(widths), widths, everywhere))

    def _regions(self, scores: Floats) -> NDArray[np.int64]:
        return np.searchsorted(self.scores[1:-1], scores, "right")


def expected_grade_scale(scores: Floats, grades: Floats, levels: Floats) -> GradeScale:
    """Return the scale of scores that are expected grades: stretched, then rounded to the nearest grade.

    An expected grade is nearer the mean than the grade, by the share of the variance that it does not explain. As it
    is, it has the least squared error; stretched to the deviation of the grades, the greatest quadratic kappa. Half
    way, by the root of the factor, it has three quarters of either's advantage. The factor is at most 2.

    Parameters
    ----------
    scores : (n,) float64
        Expected grades of images.
    grades : (n,) float64
        Their grades.
    levels : (m,) float64
        All grades, ascending.
    """
    varies = np.ptp(scores) > 0.0 and scores.std() > 0.0  # rounding gives equal scores a deviation
    factor = np.sqrt(grades.std() / scores.std()) if varies else 1.0
    limits = np.concatenate([levels[:1], (levels[1:] + levels[:-1]) / 2.0, levels[-1:]])
    stretched = scores.mean() + (limits - grades.mean()) / np.clip(factor, 1.0, MOST_STRETCHED)
    return GradeScale(stretched, levels)


def half_width(errors: Floats, coverage: float) -> float:
    """Return the ceil((n + 1) coverage)-th smallest of `errors` (n,), the first for 0; inf if there are too few."""
    rank = max(int(np.ceil((len(errors) + 1) * coverage * (1 - ROUNDING))), 1)  # 100 * 0.07 is above 7
    return float(np.sort(errors)[rank - 1]) if rank <= len(errors) else np.inf


def fit_grade_scale(scores: Floats, grades: Floats) -> GradeScale | None:
    """Choose the thresholds with the best quadratic kappa, by coordinate ascent over quantiles of the scores.

    The start assigns each grade to as many images as have it.

    Parameters
    ----------
    scores : (n,) float64
        Scores of images by rankers that were fitted without them.
    grades : (n,) float64
        Their grades.

    Returns
    -------
    GradeScale or None
        None if there are too few images for thresholds, more than 20 grades, or equal scores.
    """
    levels, counts = np.unique(grades, return_counts=True)
    if not 2 <= len(levels) <= MOST_LEVELS or len(grades) < FEWEST_IMAGES or counts.min() < FEWEST_PER_LEVEL:
        return None
    candidates = np.unique(np.quantile(scores, np.linspace(0, 1, CANDIDATES + 1)[1:-1]))
    if len(candidates) <= len(levels) or scores.min() == scores.max():
        return None
    thresholds = np.quantile(scores, np.cumsum(counts)[:-1] / len(grades))
    thresholds = _ascend(thresholds, candidates, scores, grades, levels)
    below, above = scores[scores < thresholds[0]], scores[scores >= thresholds[-1]]
    ends = [float(np.median(part)) if len(part) else float(end) for part, end in
            ((below, thresholds[0]), (above, thresholds[-1]))]  # fmt: skip
    return GradeScale(np.concatenate([ends[:1], thresholds, ends[1:]]), levels)


def _ascend(thresholds: Floats, candidates: Floats, scores: Floats, grades: Floats, levels: Floats) -> Floats:
    def kappa(tried: Floats) -> float:
        return quadratic_kappa(levels[np.searchsorted(tried, scores, "right")], grades)

    best = kappa(thresholds)
    for _ in range(ROUNDS):
        before = best
        for position in range(len(thresholds)):
            low = thresholds[position - 1] if position else -np.inf
            high = thresholds[position + 1] if position + 1 < len(thresholds) else np.inf
            for candidate in candidates[(candidates > low) & (candidates < high)]:
                tried = thresholds.copy()
                tried[position] = candidate
                if (quality := kappa(tried)) > best:
                    best, thresholds = quality, tried
        if best == before:
            break
    return thresholds
