"""How well scores tell which of two images is the more severe, and what it cost to learn that."""

from collections.abc import Mapping
from itertools import combinations, pairwise
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import precision_recall_fscore_support

from cbir.active.candidate_pool import Rows
from cbir.errors import InvalidInput
from cbir.grading.agreement import nearest_level

Floats = NDArray[np.floating]

PAIR_SECONDS, IMAGE_SECONDS = (
    1.0,
    20.0,
)  # to compare two images, and to grade one (Kadota et al., section 5.2.4)


class Relative(TypedDict):
    """Accuracy of relative labels, 0 to 1; nan where no two grades can be compared.

    overall: of balanced random pairs. neighbouring: mean over pairs of neighbouring grades. each: of every such pair,
    by its name, "3-4" for instance.
    """

    overall: float
    neighbouring: float
    each: dict[str, float]


def relative_accuracy(scores: Floats, grades: Floats) -> Relative:
    """Share of pairs that scores (n,) put into the order of grades (n,), as expected over all draws of pairs.

    Pairs are balanced: every two different grades weigh the same however many images have them (Kadota et al.,
    section 5.1.2, "Overall"). In place of one draw of pairs it is the mean over all of them, which has no chance in
    it: for two grades the share of pairs in the right order is the area under the ROC curve. A tie counts half.
    Raises InvalidInput where shapes differ or a number is not finite.
    """
    scores, grades = _checked(scores, grades)
    levels = np.unique(grades)
    of = {
        (low, high): _auc(scores[grades == low], scores[grades == high])
        for low, high in combinations(levels, 2)
    }
    each = {f"{low:g}-{high:g}": of[low, high] for low, high in pairwise(levels)}
    return {"overall": _mean(of.values()), "neighbouring": _mean(each.values()), "each": each}


def drawn_pairs(grades: Floats, rng: np.random.Generator, neighbouring: bool = False) -> Rows:
    """Pairs (m, 2) for a test of significance, the more severe first: about as many as there are images.

    Grades are drawn with equal chance, then an image of each; neighbouring: only grades next to each other. Empty
    where all grades are alike.
    """
    _, grades = _checked(grades, grades)
    levels, place = np.unique(grades, return_inverse=True)
    of_level = [np.flatnonzero(place == level) for level in range(len(levels))]
    kinds = list(pairwise(range(len(levels))) if neighbouring else combinations(range(len(levels)), 2))
    if not kinds:
        return np.empty((0, 2), np.int64)
    drawn = {
        (int(rng.choice(of_level[high])), int(rng.choice(of_level[low])))
        for low, high in (kinds[kind] for kind in rng.integers(0, len(kinds), len(grades)))
    }
    return np.array(sorted(drawn), np.int64)


def right(scores: Floats, pairs: Rows) -> NDArray[np.bool_]:
    """Whether (m,) the first of each pair (m, 2), the more severe, has the higher score."""
    return np.asarray(scores)[pairs[:, 0]] > np.asarray(scores)[pairs[:, 1]]


def mcnemar_holm(ours: NDArray[np.bool_], others: Mapping[str, NDArray[np.bool_]]) -> dict[str, float]:
    """p of McNemar's exact test of one method against each other, with Holm's correction for their number.

    ours, others: (m,) whether the same pairs were put into the right order. Raises InvalidInput where the numbers
    of pairs differ.
    """
    from statsmodels.stats.contingency_tables import mcnemar
    from statsmodels.stats.multitest import multipletests

    if any(other.shape != ours.shape for other in others.values()):
        raise InvalidInput("McNemar's test compares answers to the same pairs")
    if not others:
        return {}
    p = []
    for other in others.values():
        table = [
            [np.sum(ours & other), np.sum(ours & ~other)],
            [np.sum(~ours & other), np.sum(~ours & ~other)],
        ]
        p.append(float(mcnemar(table, exact=True).pvalue))
    return dict(zip(others, (float(of) for of in multipletests(p, method="holm")[1]), strict=True))


def proportions(grades: Floats, pairs: Rows) -> dict[str, float]:
    """The share that each grade has of the images in some pair (Figure 6)."""
    levels, inside = np.unique(grades), np.asarray(grades)[np.unique(pairs)]
    return {f"{level:g}": float((inside == level).mean()) if len(inside) else 0.0 for level in levels}


def uncertainty_by_grade(variance: Floats, grades: Floats) -> dict[str, list[float]]:
    """Of each grade the 5, 25, 50, 75 and 95 % quantiles of the variance (Figure 7)."""
    variance, grades = _checked(variance, grades)
    return {f"{level:g}": [float(of) for of in np.quantile(variance[grades == level], (0.05, 0.25, 0.5, 0.75, 0.95))]
            for level in np.unique(grades)}  # fmt: skip


class Classified(TypedDict):
    """Macro means over the grades, and the share of images with the right grade."""

    precision: float
    recall: float
    f1: float
    accuracy: float


def classified(scores: Floats, grades: Floats, levels: Floats) -> Classified:
    """Calibrated scores (n,) as grades: the nearest of ascending `levels`, compared with grades (n,).

    Kadota et al., section 5.2.2. Means are over the grades that occur in either; 0 where a grade is never given.
    """
    scores, grades = _checked(scores, grades)
    given = nearest_level(scores, np.asarray(levels, np.float64))
    known, found = (np.searchsorted(levels, of) for of in (grades, given))
    precision, recall, f1, _ = precision_recall_fscore_support(known, found, average="macro", zero_division=0)
    return {
        "precision": float(precision),
        "recall": float(recall),
        "f1": float(f1),
        "accuracy": float((given == grades).mean()),
    }


def cost(pairs: int, graded: int = 0) -> float:
    """Seconds of a person for so many compared pairs and so many graded images."""
    return pairs * PAIR_SECONDS + graded * IMAGE_SECONDS


def _auc(low: Floats, high: Floats) -> float:
    ranks = rankdata(np.concatenate([high, low]))[: len(high)]
    return float((ranks.sum() - len(high) * (len(high) + 1) / 2) / (len(high) * len(low)))


def _mean(values: object) -> float:
    found = list(values)  # type: ignore[call-overload]
    return float(np.mean(found)) if found else float("nan")


def _checked(scores: Floats, grades: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = np.asarray(scores, np.float64), np.asarray(grades, np.float64)
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise InvalidInput(
            f"scores {first.shape} and grades {second.shape} are of the same images, one at least"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise InvalidInput("scores and grades must be finite numbers; at least one is not")
    return first, second
