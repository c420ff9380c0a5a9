"""Cross-validation of graders, folds by patient, and tests of their differences (Huang et al. 2010, IV.C-E)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f_oneway, tukey_hsd

from cbir import grading
from cbir.errors import InvalidInput
from cbir.grading.agreement import Agreement, agreement
from cbir.grading.graded_list import GradedList, Smoothing
from cbir.grading.rivals import names as rivals
from cbir.grading.rivals import rival
from cbir.models.linear.grouped_folds import group_folds
from cbir.models.linear.list_measures import ndcg, ndcg_gains
from cbir.models.linear.ranking_lists import ListSize, assign_lists, rows_by_list

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Split = tuple[Integers, Integers]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What one method made of images it had not seen.

    tested: rows of the images, all of them where there are folds. predicted, grades: (n,) of these. lists: NDCG of
    every list. folds: agreement of each fold.
    """

    name: str
    tested: Integers
    predicted: Floats
    grades: Floats
    lists: Floats
    folds: list[Agreement]
    overall: Agreement


def known() -> tuple[str, ...]:
    """The names of all rankers and rivals that learn from vectors."""
    return (*grading.names(), *rivals())


def check_name(name: str) -> None:
    """Raise InvalidInput, which lists what there is, for a name that is neither a ranker's nor a rival's."""
    every = (*grading.every_name(), *rivals())
    if name not in every:
        raise InvalidInput(f"there is no ranker {name!r}; there are: {', '.join(every)}")


def evaluate(
    name: str,
    X: Floats,
    y: Floats,
    splits: Sequence[Split],
    groups: Integers | None = None,
    list_size: ListSize = 20,
    smoothing: Smoothing = "auto",
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Train the method on each split's first rows and grade its second.

    groups: (n,) for instance patients. list_size: of the lists that NDCG is measured on. options: of the ranker.
    Raises InvalidInput.
    """
    check_name(name)
    levels, predicted = np.unique(y), np.full(len(y), np.nan)
    members = np.arange(len(y)) if groups is None else groups
    folds, lists = [], []
    for number, (train, test) in enumerate(splits):
        if name in rivals():
            scores = predicted[test] = rival(name).fit(X[train], y[train]).predict(X[test])
        else:
            ranker = grading.ranker(name, **{"seed": seed, **(options or {})}).fit(
                X[train], y[train], members[train]
            )
            scores = ranker.predict(X[test])
            predicted[test] = GradedList(ranker.predict(X[train]), y[train], smoothing).grades(scores)
        drawn = assign_lists(len(test), list_size, np.random.default_rng([seed, number]))
        gain = ndcg_gains(y[test])
        found = np.array([ndcg(scores[rows], gain[rows]) for rows in rows_by_list(drawn)])
        lists.append(found[~np.isnan(found)])
        folds.append(agreement(predicted[test], y[test], levels, _mean(lists[-1])))
    tested = np.flatnonzero(~np.isnan(predicted))
    every = np.concatenate(lists)
    overall = agreement(predicted[tested], y[tested], levels, _mean(every))
    return Evaluation(name, tested, predicted[tested], y[tested], every, folds, overall)


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def splits_by_patient(y: Floats, patients: Integers, folds: int, seed: int = 0) -> list[Split]:
    """Folds that part no patient's images; raises InvalidInput where there are too few patients."""
    return list(group_folds(y, patients, folds, seed))


@dataclass(frozen=True)
class Comparison:
    """Two methods: mean difference of NDCG, its 95 % interval by Tukey's test, and p."""

    one: str
    other: str
    difference: float
    low: float
    high: float
    p: float


def compare(evaluations: Sequence[Evaluation]) -> tuple[float, list[Comparison]]:
    """p of one-way analysis of variance over the lists' NDCG, and Tukey's test of every two methods.

    p is nan, and there are no comparisons, where a method has fewer than two lists or nothing varies.
    """
    samples = [evaluation.lists for evaluation in evaluations]
    if len(samples) < 2 or min(map(len, samples)) < 2 or all(np.ptp(sample) == 0 for sample in samples):
        return float("nan"), []
    p, tukey = float(f_oneway(*samples).pvalue), tukey_hsd(*samples)
    interval = tukey.confidence_interval()
    compared = [
        Comparison(
            evaluations[i].name,
            evaluations[j].name,
            *(float(of[i, j]) for of in (tukey.statistic, interval.low, interval.high, tukey.pvalue)),
        )
        for i in range(len(samples))
        for j in range(i + 1, len(samples))
    ]
    return p, compared
