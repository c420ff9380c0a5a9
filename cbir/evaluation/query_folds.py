"""Folds of queries, to see how much figures vary from patients to patients."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.candidates import encode_values
from cbir.evaluation.grouped_folds import stratified_folds
from cbir.evaluation.query_images import EvalQuery


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
