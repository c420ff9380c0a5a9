"""Folds that keep a patient's images together: for cross-validation, and to see how much figures of queries vary."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from cbir.errors import InvalidInput
from cbir.evaluation.query_images import EvalQuery
from cbir.evaluation.relevance import encode_values

Integers = NDArray[np.int64]

STRATA = 10


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
