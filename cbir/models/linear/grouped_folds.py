"""Folds that keep a patient's images together, and grades in like shares."""

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from cbir.errors import InvalidInput

Integers = NDArray[np.int64]

STRATA = 10


def group_folds(
    grades: NDArray[np.float64], groups: Integers, folds: int, seed: int
) -> Iterator[tuple[Integers, Integers]]:
    """Rows to train and to test with, for each fold; raises InvalidInput where there are fewer groups than folds."""
    if folds < 2:
        raise InvalidInput(f"there are at least 2 folds, not {folds}")
    count = len(np.unique(groups))
    if count < folds:
        raise InvalidInput(f"{folds} folds need as many patients (or images without one); there are {count}")
    edges = np.unique(np.quantile(grades, np.linspace(0, 1, STRATA + 1)[1:-1]))
    strata = np.searchsorted(edges, grades)
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a stratum may be smaller than the number of folds
        parts = list(
            splitter.split(grades, strata if _enough(strata, folds) else np.zeros_like(strata), groups)
        )
    yield from parts


def _enough(strata: Integers, folds: int) -> bool:
    """scikit-learn stratifies where at least one stratum fills the folds."""
    return int(np.bincount(strata).max()) >= folds
