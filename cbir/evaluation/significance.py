"""Means over queries: folds that keep a patient's images together, confidence intervals, and tests of differences.

The resampling is one matrix product for all runs and metrics; scipy.stats gathers every resample of every row. Beside
them: the selection of images that score above negatives, with a bound on how many of the selected are negative.
"""

import warnings
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.qrels import EvalQuery
from cbir.evaluation.relevance import encode_values
from cbir.system.threads import OneBlasThread

Integers = NDArray[np.int64]
STRATA = 10
RESAMPLES = 10_000
BATCH = 250  # resamples at a time
Floats = NDArray[np.float64]
CONFIDENCE = 0.9  # of the bound on the number of false selections
ROUNDING = 1e-9  # relative: a rate such as 0.3 is not exact, and values often equal their thresholds


def group_folds(
    grades: NDArray[np.float64], groups: Integers, folds: int, seed: int = 0
) -> list[tuple[Integers, Integers]]:
    """Yield the rows to train and to test with, for each fold.

    Parameters
    ----------
    grades : (n,) float64
        Grades, to stratify by.
    groups : (n,) int
        Images of one group, such as a patient, stay together.
    folds : int
        Number of folds, at least 2.
    seed : int
        Seed of the random choice.

    Raises
    ------
    InvalidInput
        If there are fewer groups than folds.
    """
    shares = np.linspace(0, 1, STRATA + 1)[1:-1]
    edges = np.unique(np.quantile(grades, shares)) if len(grades) else grades
    return stratified_folds(np.searchsorted(edges, grades), groups, folds, seed)


def stratified_folds(
    strata: Integers, groups: Integers, folds: int, seed: int = 0
) -> list[tuple[Integers, Integers]]:
    """Return the rows to train and to test with, for each fold.

    Parameters
    ----------
    strata : (n,) int
        Strata to spread evenly, from 0 on.
    groups, folds, seed
        As for `group_folds`, with the same exception.
    """
    if folds < 2:
        raise InvalidInput(f"cross-validation needs at least 2 folds, not {folds}")
    count = len(np.unique(groups))
    if count < folds:
        raise InvalidInput(f"{folds} folds need as many patients (or images without one); there are {count}")
    from sklearn.model_selection import StratifiedGroupKFold  # which takes a second to import

    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a stratum may be smaller than the number of folds
        if int(np.bincount(strata).max()) < folds:  # scikit-learn refuses if no stratum fills the folds
            strata = np.zeros_like(strata)
        return list(splitter.split(strata, strata, groups))


def assign_folds(
    queries: Sequence[EvalQuery], classes: NDArray[np.int64], folds: int, seed: int
) -> NDArray[np.int64]:
    """Assign queries to folds; a patient's queries stay together, and classes are spread evenly.

    Parameters
    ----------
    queries : sequence of EvalQuery
        Without a patient, copies of a picture stay together. The folds depend on the pictures and on which of them
        share a patient, not on the order of the queries or a collection's keys.
    classes : (q,) int64
        Of the queries.
    folds : int
        Number of folds, at least 2.
    seed : int

    Returns
    -------
    (q,) int64
        0 to folds - 1.

    Raises
    ------
    InvalidInput
        If there are fewer patients than folds.
    """
    order = np.array(sorted(range(len(queries)), key=lambda row: (queries[row].content, row)))
    groups = encode_values((queries[row].patient or queries[row].content for row in order.tolist()), {})
    ordered = classes[order]
    strata = encode_values(ordered.tolist(), {})
    result = np.empty(len(queries), np.int64)
    for fold, (_, test) in enumerate(stratified_folds(strata, groups, folds, seed)):
        result[order[test]] = fold
    return result


def fold_means(values: NDArray[np.float64], folds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean (r, m, f) over the queries of each fold, of `values` (r, m, q) and `folds` (q,)."""
    return np.stack(
        [values[:, :, folds == fold].mean(axis=2) for fold in range(int(folds.max()) + 1)], axis=2
    )


def bootstrap_intervals(
    values: Floats, *, share: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Floats, Floats]:
    """Return percentile bootstrap intervals of means over queries (Efron 1979; Sakai 2006 for retrieval).

    Parameters
    ----------
    values : (m, q) float64
        A row for each metric. Queries are drawn with replacement, the same ones for every row.
    share : float
        Coverage, 0 to 1.
    resamples : int
        At least 1.
    seed : int

    Returns
    -------
    low, high : (m,) float64

    Raises
    ------
    InvalidInput
        For another shape, no queries, or an option out of range.
    """
    _check_resampled(values, resamples)
    if not values.shape[1]:
        raise InvalidInput("an interval of a mean over queries needs a query; there are none")
    if not 0.0 <= share <= 1.0:
        raise InvalidInput(f"the share that an interval covers is from 0 to 1, not {share}")
    generator = np.random.default_rng(seed)
    count = values.shape[1]
    with OneBlasThread():
        sums = [_draw_counts(generator, count, size) @ values.T for size in _batches(resamples)]
    means = np.concatenate(sums) / count
    low, high = np.quantile(means, [(1 - share) / 2, (1 + share) / 2], axis=0)
    return low, high


def _draw_counts(generator: np.random.Generator, count: int, resamples: int) -> Floats:
    """Return how often each of `count` queries is in each resample, (resamples, count)."""
    queries = generator.integers(0, count, (resamples, count))
    queries += count * np.arange(resamples)[:, None]
    counts = np.bincount(queries.ravel(), minlength=resamples * count)
    return counts.reshape(resamples, count).astype(np.float64)


def randomisation_test(differences: Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Return two-sided p values of mean differences being 0, by Fisher's paired randomisation test.

    Parameters
    ----------
    differences : (m, q) float64
        A row for each metric. The signs of a query's differences are drawn at random; p is the share of draws,
        the observed one among them, whose mean is as far from 0 (Smucker, Allan & Carterette 2007).
    resamples : int
        At least 1.
    seed : int

    Returns
    -------
    (m,) float64

    Raises
    ------
    InvalidInput
        For another shape, no resamples, or a difference that is NaN.
    """
    _check_resampled(differences, resamples)
    if missing := int(np.isnan(differences).any(axis=0).sum()):
        raise InvalidInput(f"{missing} queries have no value (NaN); leave them out of the test")
    generator = np.random.default_rng(seed)
    # A sum in another order is the same sum, even where its terms cancel
    threshold = np.abs(differences.sum(axis=1)) - ROUNDING * np.abs(differences).sum(axis=1)
    extreme = np.ones(len(differences))
    with OneBlasThread():
        for size in _batches(resamples):
            signs = generator.integers(0, 2, (size, differences.shape[1]), np.int8) * 2.0 - 1.0
            extreme += (np.abs(signs @ differences.T) >= threshold).sum(axis=0)
    return extreme / (resamples + 1)


def _check_resampled(values: Floats, resamples: int) -> None:
    if np.ndim(values) != 2:
        raise InvalidInput(
            f"values have a row for each metric, (metrics, queries), not the shape {np.shape(values)}"
        )
    if not isinstance(resamples, Integral) or resamples < 1:
        raise InvalidInput(f"resamples: a whole number, at least 1, not {resamples!r}")


def _batches(total: int) -> Iterator[int]:
    for start in range(0, total, BATCH):
        yield min(BATCH, total - start)


class ConformalSelection(NamedTuple):
    """Selected images, a mask (m,), and the number of negatives among them that CONFIDENCE of draws do not exceed."""

    selected: NDArray[np.bool_]
    most_false: int


def conformal_p_values(scores: Floats, negatives: Floats) -> Floats:
    """Return the p-values (m,) of `scores` (m,): the share of `negatives` (n,), and itself, that score no lower.

    Bates et al. 2023, Testing for outliers with conformal p-values, section 2.
    """
    higher = len(negatives) - np.searchsorted(np.sort(negatives), scores, side="left")
    return np.asarray((1.0 + higher) / (len(negatives) + 1.0), np.float64)


def select_above_negatives(scores: Floats, negatives: Floats, fdr: float) -> ConformalSelection:
    """Select images by conformal p-values with the procedure of Benjamini and Hochberg.

    Jin and Candes 2023, Selection by prediction with conformal p-values, with negatives alone for calibration. If the
    negatives among the images are exchangeable with the calibrating ones, then over draws of both the expected share
    of negatives among the selected, the false discovery rate, is at most `fdr`. The share in one draw may be higher.

    Parameters
    ----------
    scores : (m,)
        Scores of the images.
    negatives : (n,)
        Scores of held-out negatives.
    fdr : float
        Between 0 and 1.

    Raises
    ------
    InvalidInput
        If `fdr` is out of range, there are no negatives, or a score is NaN.
    """
    if not 0.0 < fdr < 1.0:
        raise InvalidInput(f"a false discovery rate is above 0 and below 1, not {fdr}")
    if not len(negatives):
        raise InvalidInput("conformal selection needs scores of held-out negatives; there are none")
    if np.isnan(scores).any() or np.isnan(negatives).any():
        raise InvalidInput("a score is NaN; conformal selection needs a score of each image")
    p = conformal_p_values(scores, negatives)
    passes = np.sort(p) * len(p) <= fdr * np.arange(1, len(p) + 1) * (1 + ROUNDING)
    if not passes.any():
        return ConformalSelection(np.zeros(len(p), bool), 0)
    selected = p <= np.sort(p)[np.flatnonzero(passes)[-1]]
    rank = round(float(p[selected].max()) * (len(negatives) + 1))
    return ConformalSelection(selected, min(int(selected.sum()), most_above(rank, len(negatives), len(p))))


def most_above(rank: int, negatives: int, images: int) -> int:
    """Return a bound on how many of m new negatives score above the `rank`-th highest of n calibrating ones.

    That number is beta-binomial, for exchangeable scores (Marques 2023, On the universal distribution of the coverage
    in split conformal prediction). The bounds of all ranks together hold with probability CONFIDENCE: a rank k has
    the share 1 / (k (k + 1)) of the error, so that the rank may depend on the data.
    """
    from scipy.stats import betabinom  # loads slowly

    if rank > negatives:
        return images
    error = (1.0 - CONFIDENCE) / (rank * (rank + 1))
    return int(betabinom.ppf(1.0 - error, images, rank, negatives + 1 - rank))


def least_selected(images: int, negatives: int, fdr: float) -> int:
    """Return how many of `images` are enough at `fdr` if they score above all `negatives`, and all others below.

    More than `images` if there are fewer than `least_negatives`.
    """
    return int(np.ceil(images / (fdr * (negatives + 1)) * (1 - ROUNDING)))


def least_negatives(fdr: float) -> int:
    """Return the number of negatives below which nothing can be selected at `fdr`."""
    return int(np.ceil((1 - ROUNDING) / fdr)) - 1
