"""Share of left-out grades that intervals cover, for each grade that is shown."""

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances

from cbir.learn.grading import names as ranker_names
from cbir.learn.grading.grade_agreement import ROUNDING, nearest_level
from cbir.learn.grading.graded_list import Smoothing
from cbir.learn.grading.interpolation import GradeInterpolator
from cbir.learn.grading.picture_maps import PictureMaps
from cbir.learn.grading.training_range import fit_training_range
from cbir.learn.models.linear.ranking_estimator import FeatureRanker, RankingEstimator

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class RegionCoverage(TypedDict):
    """Share of grades within the interval, and its mean width, over the images that are rounded to one grade."""

    grade: float
    images: int
    covered: float
    width: float


class IntervalCoverage(TypedDict):
    """Coverage for each grade that is shown and over all images; share of images refused as unlike, or None."""

    coverage: float
    covered: float
    width: float
    refused: float | None
    regions: list[RegionCoverage]


def measure_interval_coverage(
    ranker: RankingEstimator,
    X: Floats | PictureMaps,
    y: Floats,
    splits: Sequence[tuple[Integers, Integers]],
    groups: Integers,
    smoothing: Smoothing,
    coverage: float,
) -> IntervalCoverage:
    """Fit a grader, as `cbir grade fit` does, to the training rows of each split, and grade the test rows.

    Parameters
    ----------
    ranker : RankingEstimator
        Not fitted.
    X : (n, d) float64 or PictureMaps
        Features, or pictures for a network.
    y : (n,) float64
        Grades.
    splits : sequence of (int array, int array)
        Rows to train and to test with.
    groups : (n,) int
        Groups of images, such as patients.
    smoothing : int, "auto" or "thresholds"
        See `GradedList`.
    coverage : float
        Share that the intervals shall cover.
    """
    levels, tested = np.unique(y), np.concatenate([test for _, test in splits])
    grades, widths, covered = np.empty(len(y)), np.empty(len(y)), np.zeros(len(y), bool)
    refused: list[NDArray[np.bool_]] = []
    for train, test in splits:
        features: Any = X
        grader = GradeInterpolator(clone(ranker), smoothing, coverage, ranker.seed)
        grader.fit(features[train], y[train], groups[train])
        cases = grader.locate(features[test])
        low, high = (np.array([getattr(case, end) for case in cases]) for end in ("low", "high"))
        grades[test], widths[test] = [case.grade for case in cases], high - low
        covered[test] = (low - ROUNDING <= y[test]) & (y[test] <= high + ROUNDING)
        if ranker.name in ranker_names() and isinstance(grader.ranker_, FeatureRanker):
            refused.append(_unlike(grader.ranker_, features[train], features[test], groups[train]))
    shown = nearest_level(grades[tested], levels)
    regions = [
        RegionCoverage(
            grade=float(level),
            images=len(rows),
            covered=float(covered[rows].mean()),
            width=float(widths[rows].mean()),
        )
        for level in levels
        if len(rows := tested[shown == level])
    ]
    return IntervalCoverage(
        coverage=coverage,
        covered=float(covered[tested].mean()),
        width=float(widths[tested].mean()),
        refused=float(np.concatenate(refused).mean()) if refused else None,
        regions=regions,
    )


def _unlike(ranker: FeatureRanker, train: Floats, test: Floats, groups: Integers) -> NDArray[np.bool_]:
    """Return which images of `test` (m, d) `TrainingRange` refuses."""
    training_range = fit_training_range(ranker.standardised(train), groups.astype(str))
    if training_range is None:
        return np.zeros(len(test), bool)
    return np.asarray(
        euclidean_distances(ranker.standardised(test), training_range.values).min(axis=1)
        > training_range.limit
    )
