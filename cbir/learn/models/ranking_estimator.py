"""Ranking lists of graded images, and the base of ranking functions by scikit-learn's conventions.

Pairs of differently graded images are never formed. A pair (i, j) belongs to one list, with i graded higher than j.
The levels of grades are numbered; the numbers of a pair first differ in one binary digit, so that the pairs fall into
log2(levels) rounds, each with "left" images (digit 0) and "right" images (digit 1). In a round, the partners of an
image are a range of the other side sorted by score, which binary search and running sums evaluate. (The same sums as
the order-statistic trees of Lee & Lin 2014, Large-scale linear rankSVM, in array operations.)
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cbir.errors import InvalidInput

ListSize = int | None  # None: all images in one list
LEAST = 2
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def assign_lists(count: int, size: ListSize, generator: np.random.Generator) -> NDArray[np.int64]:
    """Assign images to lists at random.

    Parameters
    ----------
    count : int
        Number of images.
    size : int, optional
        Images per list, at least 2; a list has a few more rather than fewer. None: one list.
    generator : np.random.Generator
        Random numbers.

    Returns
    -------
    (count,) int
        List of each image, numbered from 0.

    Raises
    ------
    InvalidInput
        If `size` is out of range.
    """
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < LEAST):
        raise InvalidInput(f"a list has {LEAST} images or more, or None for all, not {size!r}")
    lists = max(1, count // size) if size is not None else 1
    if lists == 1:
        return np.zeros(count, np.int64)
    return generator.permutation(count) * lists // count


def rows_by_list(lists: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the rows of each list, from the list (n,) of each image."""
    order = np.argsort(lists, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(lists[order])) + 1)


class Pairs:
    """Pairs of different `grades` (n,) within `lists` (n,)."""

    def __init__(self, grades: Floats, lists: Integers) -> None:
        levels = np.unique(grades, return_inverse=True)[1]
        # left rows, right rows, block of every row
        self.rounds: list[tuple[Integers, Integers, Integers]] = []
        for digit in range(int(levels.max()).bit_length()):
            higher = levels >> (digit + 1)
            block = np.unique(lists * (int(higher.max()) + 1) + higher, return_inverse=True)[1]
            is_right = (levels >> digit) & 1 == 1
            self.rounds.append((np.flatnonzero(~is_right), np.flatnonzero(is_right), block))

    def within(self, scores: Floats, margin: float) -> "Within":
        """Return the pairs whose `scores` (n,) are in the wrong order, or in the right one by less than `margin`."""
        return Within(len(scores), [_partners(*rows, scores, margin) for rows in self.rounds])


class _Partners(NamedTuple):
    """Sorted rows of images, and of their partners, of which those of an image are [start, stop)."""

    rows: Integers
    partners: Integers
    start: Integers
    stop: Integers


class Within:
    """Sums over the partners of every image; `rounds` have the lower partners, then the higher."""

    def __init__(self, count: int, rounds: list[tuple[_Partners, _Partners]]) -> None:
        self.count, self.rounds = count, rounds

    def of_lower(self, values: Floats) -> Floats:
        """Return for each image (n,) the sum of `values` (n,) over its partners of lower grade."""
        return self._sums(values, 0)

    def of_higher(self, values: Floats) -> Floats:
        """Return for each image (n,) the sum of `values` (n,) over its partners of higher grade."""
        return self._sums(values, 1)

    def _sums(self, values: Floats, side: int) -> Floats:
        sums = np.zeros(self.count)
        for rows, partners, start, stop in (sides[side] for sides in self.rounds):
            running = np.concatenate([[0.0], np.cumsum(values[partners])])
            sums[rows] += running[stop] - running[start]
        return sums


def _partners(
    left: Integers, right: Integers, block: Integers, scores: Floats, margin: float
) -> tuple[_Partners, _Partners]:
    """Find partners by binary search, with the blocks one behind the other, too far apart to overlap."""
    low, high = float(scores.min()), float(scores.max())
    distance = (high - low) + 2.0 * margin + 1.0
    keys = block * distance + (scores - low)
    left, right = left[np.argsort(keys[left])], right[np.argsort(keys[right])]
    left_keys, right_keys = keys[left], keys[right]
    left_blocks, right_blocks = block[left], block[right]
    start = np.searchsorted(left_keys, right_keys - margin, "right")
    lower = _Partners(right, left, start, np.searchsorted(left_blocks, right_blocks, "right"))
    stop = np.searchsorted(right_keys, left_keys + margin)
    return lower, _Partners(left, right, np.searchsorted(right_blocks, left_blocks), stop)


def ndcg_gains(grades: Floats) -> Floats:
    """Compute 2^grade - 1, divided by 2^highest against overflow; negative grades are shifted up together."""
    shifted = grades - min(0.0, float(grades.min(initial=0.0)))
    highest = shifted.max(initial=0.0)
    return cast(Floats, np.exp2(shifted - highest) - np.exp2(-highest))


def ndcg(scores: Floats, gain: Floats) -> float:
    """Compute NDCG (Huang et al. 2010, eq. 4) of `scores` (n,) and gains `gain` (n,); nan if no gain is above 0.

    Equal scores share the discounts of their positions.
    """
    discounts = 1.0 / np.log2(np.arange(2.0, len(scores) + 2.0))
    best = float(np.sort(gain)[::-1] @ discounts)
    if best <= 0.0:
        return float("nan")
    _, tied, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    sums = np.concatenate([[0.0], np.cumsum(discounts)])
    return float(gain @ ((sums[ends] - sums[ends - counts]) / counts)[tied]) / best


def ndcg_of_lists(scores: Floats, grades: Floats, lists: NDArray[np.int64]) -> Floats:
    """Compute the NDCG of each list.

    Parameters
    ----------
    scores, grades : (n,) float64
        Of all images.
    lists : (n,) int
        List of each image.

    Returns
    -------
    (m,) float64
        Lists without NDCG are left out.
    """
    gain = ndcg_gains(grades)
    values = np.array([ndcg(scores[rows], gain[rows]) for rows in rows_by_list(lists)])
    return cast(Floats, values[~np.isnan(values)])


def mean_or_nan(values: Floats | Sequence[float]) -> float:
    """Return the mean of `values`; nan if there are none."""
    return float(np.mean(values)) if len(values) else float("nan")


def kendall_tau(scores: Floats, grades: Floats, lists: NDArray[np.int64]) -> Floats:
    """Compute (P - Q) / (n (n - 1) / 2) with P concordant and Q discordant pairs (Huang et al. 2010, IV.B).

    O(n log n log g) for g different grades.

    Parameters
    ----------
    scores, grades : (n,) float64
        Of all images; ties count as neither concordant nor discordant.
    lists : (n,) int
        List of each image, numbered from 0.

    Returns
    -------
    (m,) float64
        Tau of each list.
    """
    count, ranks = np.ones(len(scores)), np.unique(scores, return_inverse=True)[1].astype(np.float64)
    pairs = Pairs(grades, lists)
    difference = pairs.within(-ranks, 0.0).of_lower(count) - pairs.within(ranks, 0.0).of_lower(count)
    size = np.bincount(lists).astype(np.float64)
    return np.bincount(lists, difference) / np.maximum(size * (size - 1.0) / 2.0, 1.0)


def check_features(X: ArrayLike, dimensions: int | None = None) -> Floats:
    """Return features `X` (n, d) as float64; InvalidInput if they are not finite, or d is not `dimensions`."""
    features = _numbers(X, "features")
    if features.ndim != 2 or not features.shape[1]:
        raise InvalidInput(f"features have the shape (images, values), not {features.shape}")
    if dimensions is not None and features.shape[1] != dimensions:
        raise InvalidInput(
            f"these features have {features.shape[1]} values per image; the ranker was fitted with {dimensions}"
        )
    return features


def check_graded(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return features `X` (n, d) and grades `y` (n,) as float64; InvalidInput if they do not fit or are empty."""
    features, grades = check_features(X), _numbers(y, "grades")
    if grades.shape != (len(features),):
        raise InvalidInput(f"{len(features)} images need as many grades, not {grades.shape}")
    if not len(grades):
        raise InvalidInput("there are no graded images")
    return features, grades


def number_groups(groups: Any, count: int) -> NDArray[np.int64]:
    """Return the group number (n,) of each of `count` images; without `groups`, each has a group of its own."""
    if groups is None:
        return np.arange(count)
    try:
        numbers = np.unique(np.asarray(groups), return_inverse=True)[1]
    except TypeError:
        raise InvalidInput("groups are all numbers or all texts, one for each image") from None
    if numbers.shape != (count,):
        raise InvalidInput(f"{count} images need as many groups, not {numbers.shape}")
    return numbers


def _numbers(values: ArrayLike, what: str) -> Floats:
    try:
        numbers = np.asarray(values)
        if numbers.dtype.kind == "c":
            raise TypeError
        numbers = np.asarray(numbers, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be real numbers") from None
    if not np.isfinite(numbers).all():
        raise InvalidInput(f"{what} must be finite numbers; at least one is not")
    return numbers


class RankingEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A ranking function: higher scores for more severe cases.

    The constructor stores options; `fit` learns, into attributes that end with `_`.
    """

    name: ClassVar[str]
    predicts_grades: ClassVar[bool] = False  # scores are expected grades
    list_size: ListSize
    seed: int

    @abstractmethod
    def fit(self, X: Any, y: ArrayLike, groups: Any = None) -> Self:
        """Fit the ranking function.

        Parameters
        ----------
        X : (n, d)
            Features; of some rankers pictures.
        y : (n,)
            Grades, at least two different ones; larger is more severe.
        groups : (n,), optional
            Images of one group, such as a patient, stay together if the ranker holds images out.

        Raises
        ------
        InvalidInput
            If these do not fit or an option is out of range.
        """

    @abstractmethod
    def predict(self, X: Any) -> Floats:
        """Return scores (n,) float64 of `X`, which is of the kind of `fit`; raise InvalidInput if it is not."""

    def score(self, X: Any, y: ArrayLike) -> float:
        """Return the mean NDCG, 0 to 1, of `X` with grades `y` (Huang et al. 2010, eq. 4)."""
        scores = self.predict(X)
        _, grades = check_graded(scores[:, None], y)
        lists = assign_lists(len(grades), self.list_size, np.random.default_rng(self.seed))
        return mean_or_nan(ndcg_of_lists(scores, grades, lists))


class FeatureRanker(RankingEstimator):
    """A ranker of features, which it standardises."""

    def fit(self, X: ArrayLike, y: ArrayLike, groups: Any = None) -> Self:
        """Standardise the features and learn from them; see `RankingEstimator.fit`."""
        features, grades = check_graded(X, y)
        if grades.min() == grades.max():
            raise InvalidInput(f"all {len(grades)} grades are equal; there is nothing to rank")
        deviation = features.std(axis=0)
        self.n_features_in_ = features.shape[1]
        self.mean_ = features.mean(axis=0)
        # A feature that is constant, up to rounding, has no information: it stays 0 for new images too.
        constant = deviation <= 1e-7 * np.maximum(np.abs(self.mean_), 1e-30)
        self.scale_ = np.where(constant, np.inf, deviation)
        self._learn(self._standardised(features), grades, number_groups(groups, len(grades)))
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return scores (n,) float64 of features `X` (n, d). Raises InvalidInput if d is not that of `fit`."""
        check_is_fitted(self, "scale_")
        return self._scores(self._standardised(check_features(X, self.n_features_in_)))

    def standardised(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return features `X` (n, d) as multiples of the deviation in training; constant ones are 0."""
        check_is_fitted(self, "scale_")
        return self._standardised(check_features(X, self.n_features_in_)).astype(np.float32)

    def _standardised(self, features: Floats) -> Floats:
        return cast(Floats, (features - self.mean_) / self.scale_)

    @abstractmethod
    def _learn(self, Z: Floats, grades: Floats, groups: Integers) -> None:
        """Fit to standardised features `Z` (n, d), `grades` (n,) and `groups` (n,)."""

    @abstractmethod
    def _scores(self, Z: Floats) -> Floats:
        """Return scores (n,) of standardised features `Z` (n, d)."""


class LinearRanker(FeatureRanker):
    """A ranker whose scores are the products of standardised features with `coef_` (d,)."""

    coef_: Floats

    def _scores(self, Z: Floats) -> Floats:
        return Z @ self.coef_
