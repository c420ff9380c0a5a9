"""Cross-validation of graders, intervals by patient, tests of differences (Huang et al. 2010, IV.C-E), and report."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f_oneway, tukey_hsd
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances

from cbir.errors import InvalidInput
from cbir.evaluation.report.charts import COLOURS, DASHES, box_chart, standalone_svg, svg_figure
from cbir.learn import grading
from cbir.learn.grading import names as ranker_names
from cbir.learn.grading.baselines import ClassificationGrader, baseline_grader
from cbir.learn.grading.baselines import names as baseline_names
from cbir.learn.grading.cnn_ranker import CnnRanker
from cbir.learn.grading.grade_scale import (
    ROUNDING,
    GradeAgreement,
    fit_grade_scale,
    measure_agreement,
    nearest_level,
)
from cbir.learn.grading.grading_state import fit_training_range
from cbir.learn.grading.interpolation import (
    GradedList,
    GradeInterpolator,
    Smoothing,
    grader_scores,
    left_out_scores,
)
from cbir.learn.grading.picture_maps import PictureMaps
from cbir.learn.models.ranking_estimator import (
    FeatureRanker,
    ListSize,
    RankingEstimator,
    assign_lists,
    mean_or_nan,
    ndcg_of_lists,
)
from cbir.system.files import atomic_text, private_folder
from cbir.system.remedies import did_you_mean

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Split = tuple[Integers, Integers]
# classes have no order; five more networks take too long
WITHOUT_THRESHOLDS = (ClassificationGrader.name, CnnRanker.name)
JITTER = 0.12  # of a grade, so that equal grades do not cover each other
MAX_POINTS = 3000


@dataclass(frozen=True, eq=False)
class GraderEvaluation:
    """Results of a method on held-out images.

    Attributes
    ----------
    name : str
        The method.
    tested : (n,) int
        Rows of the images; all of them in cross-validation.
    predicted, grades : (n,) float64
        Predicted and true grades.
    lists : (m,) float64
        NDCG of each list.
    folds : list of GradeAgreement
        Agreement in each fold.
    overall : GradeAgreement
        Agreement over all images.
    """

    name: str
    tested: Integers
    predicted: Floats
    grades: Floats
    lists: Floats
    folds: list[GradeAgreement]
    overall: GradeAgreement


def check_grader_name(name: str) -> None:
    """Raise InvalidInput, with the known names, if `name` is neither a ranker nor a baseline."""
    members = (*grading.all_names(), *baseline_names())
    if name not in members:
        advice = did_you_mean(name, members)
        raise InvalidInput(f"there is no ranker {name!r}{advice or ';'} there are: {', '.join(members)}")


def evaluate_grader(
    name: str,
    X: Floats | PictureMaps,
    y: Floats,
    splits: Sequence[Split],
    groups: Integers | None = None,
    list_size: ListSize = 20,
    smoothing: Smoothing = "auto",
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> GraderEvaluation:
    """Train a method on the training rows of each split, and grade the test rows.

    Parameters
    ----------
    name : str
        A ranker or a baseline.
    X : (n, d) float64 or PictureMaps
        Features, or pictures for a network that is tuned.
    y : (n,) float64
        Grades.
    splits : sequence of (int array, int array)
        Rows to train and to test with.
    groups : (n,) int, optional
        Groups of images, such as patients.
    list_size : int, optional
        Images per list in NDCG.
    smoothing : int, "auto" or "thresholds"
        See `GradedList`; baselines know only "thresholds", else their own grades are taken. Scores that are grades
        are rounded to the nearest one in training with every smoothing.
    seed : int
        Seed of the ranker and of the lists.
    options : mapping, optional
        Options of the method.

    Raises
    ------
    InvalidInput
        If the name or an option is unknown, or the images do not fit.
    """
    check_grader_name(name)
    levels, predicted = np.unique(y), np.full(len(y), np.nan)
    members = np.arange(len(y)) if groups is None else groups
    folds, lists = [], []
    for number, (train, test) in enumerate(splits):
        is_baseline = name in baseline_names()
        if is_baseline:
            grader: Any = baseline_grader(name, **(options or {}))
        else:
            grader = grading.make_ranker(name, **{"seed": seed, **(options or {})})
        grader.fit(X[train], y[train], members[train])
        scores = grader.predict(X[test])
        scale = getattr(grader, "grade_scale_", None)
        if scale is None and smoothing == "thresholds" and name not in WITHOUT_THRESHOLDS:
            left_out = left_out_scores(grader, X[train], y[train], members[train], seed)
            scale = None if left_out is None else fit_grade_scale(left_out, y[train])
        if scale is not None:
            scores = scores if hasattr(grader, "grade_scale_") else grader_scores(grader, X[test])
            predicted[test] = scale.grades(scores)
        elif is_baseline:
            predicted[test] = scores
        else:
            predicted[test] = GradedList(grader.predict(X[train]), y[train], smoothing).grades(scores)
        list_numbers = assign_lists(len(test), list_size, np.random.default_rng([seed, number]))
        lists.append(ndcg_of_lists(scores, y[test], list_numbers))
        folds.append(measure_agreement(predicted[test], y[test], levels, mean_or_nan(lists[-1])))
    tested = np.flatnonzero(~np.isnan(predicted))
    all_lists = np.concatenate(lists)
    overall = measure_agreement(predicted[tested], y[tested], levels, mean_or_nan(all_lists))
    return GraderEvaluation(name, tested, predicted[tested], y[tested], all_lists, folds, overall)


@dataclass(frozen=True)
class GraderComparison:
    """Mean difference of two methods' NDCG, its 95 % interval by Tukey's test, and p."""

    one: str
    other: str
    difference: float
    low: float
    high: float
    p: float


def compare_graders(evaluations: Sequence[GraderEvaluation]) -> tuple[float, list[GraderComparison]]:
    """Return p of a one-way analysis of variance of the lists' NDCG, and Tukey's tests of all pairs of methods.

    If one of `evaluations` has fewer than two lists, or nothing varies, p is nan and there are no comparisons.
    """
    samples = [evaluation.lists for evaluation in evaluations]
    if len(samples) < 2 or min(map(len, samples)) < 2 or all(np.ptp(sample) == 0 for sample in samples):
        return float("nan"), []
    p, tukey = float(f_oneway(*samples).pvalue), tukey_hsd(*samples)
    interval = tukey.confidence_interval()
    compared = [
        GraderComparison(
            evaluations[i].name,
            evaluations[j].name,
            *(float(matrix[i, j]) for matrix in (tukey.statistic, interval.low, interval.high, tukey.pvalue)),
        )
        for i, j in combinations(range(len(samples)), 2)
    ]
    return p, compared


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


BINS_PER_GRADE, MAX_BINS = 4, 400


def ndcg_boxes(samples: Sequence[tuple[str, Floats]]) -> str:
    """Draw box-and-whisker plots of NDCG, up to 1; `samples` are names with values (n,)."""
    low = min(float(values.min(initial=1.0)) for _, values in samples)
    return box_chart(samples, (max(0.0, np.floor(low * 10) / 10), 1.0), "NDCG", "NDCG of lists")


def error_histogram(errors: Floats) -> str:
    """Draw the histogram of `errors` (n,), predicted less true grade."""
    reach = max(1.0, np.ceil(float(np.abs(errors).max(initial=0.0))))
    bins = min(int(2 * reach * BINS_PER_GRADE), MAX_BINS) + 1
    counts, edges = np.histogram(errors, bins, (-reach - 0.125, reach + 0.125))
    with svg_figure(400, "histogram of errors") as chart:
        (axes,) = chart.axes
        bars = axes.bar(edges[:-1], counts, np.diff(edges) * 0.96, align="edge", color=COLOURS[0])
        for bar, count, left, right in zip(bars, counts, edges, edges[1:], strict=False):
            chart.mark(bar, "bar", f"{left:.2f} to {right:.2f}: {count}")
        axes.set(xlim=(edges[0], edges[-1]), xlabel="predicted less true grade", ylabel="images")
        axes.grid(visible=False, axis="x")
        return chart.svg()


def grade_scatter(predicted: Floats, grades: Floats) -> str:
    """Draw `predicted` (n,) over true `grades` (n,); between the two lines they differ by one at most."""
    low, high = float(min(predicted.min(), grades.min())), float(max(predicted.max(), grades.max()))
    limits = (low - 0.5, high + 0.5)
    random = np.random.default_rng(0)
    rows = np.sort(random.permutation(len(grades))[:MAX_POINTS])
    jitter = random.uniform(-JITTER, JITTER, (2, len(rows)))
    with svg_figure(400, "predicted and true grades") as chart:
        (axes,) = chart.axes
        x, y = grades[rows] + jitter[0], predicted[rows] + jitter[1]
        chart.mark(axes.scatter(x, y, s=16, color=COLOURS[0], alpha=0.5, linewidths=0), "dots", "images")
        for shift in (-1.0, 1.0):
            axes.plot(limits, (limits[0] + shift, limits[1] + shift), color=COLOURS[1], linestyle=DASHES[1])
        axes.set(xlim=limits, ylim=limits, xlabel="true grade", ylabel="predicted grade")
        return chart.svg()


def write_grading_report(evaluations: Sequence[GraderEvaluation], folder: Path) -> None:
    """Write ndcg.svg, errors-NAME.svg and grades-NAME.svg of each method, and summary.json into `folder`."""
    private_folder(folder)
    charts = {"ndcg.svg": ndcg_boxes([(method.name, method.lists) for method in evaluations])}
    for method in evaluations:
        charts[f"errors-{method.name}.svg"] = error_histogram(method.predicted - method.grades)
        charts[f"grades-{method.name}.svg"] = grade_scatter(method.predicted, method.grades)
    for name, chart in charts.items():
        with atomic_text(folder / name) as file:
            file.write(standalone_svg(chart))
    p, compared = compare_graders(evaluations)
    summary = {
        "methods": {method.name: {**method.overall, "folds": method.folds} for method in evaluations},
        "images": len(evaluations[0].tested),
        "anova_p": p,
        "tukey": [asdict(pair) for pair in compared],
    }
    with atomic_text(folder / "summary.json") as file:
        json.dump(json.loads(json.dumps(summary), parse_constant=lambda _: None), file, indent=2)
