"""Cross-validation folds that keep a patient's images together and stratify by grade."""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from cbir.errors import InvalidInput

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
