"""What every measure of scored images asks for."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.errors import InvalidInput


def split(
    scores: ArrayLike, positive: ArrayLike
) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    """Scores of the positives (m,) and of the negatives (n,), for scores (m + n,) and what is positive (m + n,).

    Infinite scores are compared like others. Raises InvalidInput where shapes differ, a score is no number, or
    there are no positives or no negatives.
    """
    values, chosen = np.asarray(scores), np.asarray(positive).astype(bool)
    if values.shape != chosen.shape or values.ndim != 1:
        raise InvalidInput(f"a measure takes a score for each image, not {values.shape} and {chosen.shape}")
    if not np.issubdtype(values.dtype, np.floating):
        values = values.astype(np.float64)
    if np.isnan(values).any():
        raise InvalidInput(
            f"{int(np.isnan(values).sum())} of {len(values)} scores are not numbers; the training went astray"
        )
    if chosen.all() or not chosen.any():
        raise InvalidInput("a measure of triage needs at least one positive and one negative image")
    return values[chosen], values[~chosen]
