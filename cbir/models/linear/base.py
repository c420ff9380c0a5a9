"""What linear rankers have in common."""

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbir.errors import InvalidInput

Floats = NDArray[np.float64]
LARGEST = 1e6  # features beyond it leave float64 no digits for the margin


class LinearRanker(ABC):
    """A score w . x that is higher for positives; an offset would change no order, so there is none.

    `fit` takes features (n, d), finite, and what is positive (n,), and learns `weights_` (d,) float64. Features of
    like range serve best: standardise them. Memory grows with n d: pairs are never formed.
    """

    weights_: Floats

    def fit(self, features: ArrayLike, positive: ArrayLike) -> Self:
        """Learn from features (n, d); raises InvalidInput where they are not finite or one kind is missing."""
        vectors, chosen = np.asarray(features, np.float64), np.asarray(positive).astype(bool)
        if vectors.ndim != 2 or chosen.shape != vectors.shape[:1] or not vectors.shape[1]:
            raise InvalidInput(
                "a linear ranker takes features (n, d) and, for each of the n, whether it is positive"
            )
        if not np.isfinite(vectors).all() or np.abs(vectors).max(initial=0.0) > LARGEST:
            raise InvalidInput(
                f"a linear ranker takes features up to {LARGEST:g}, all of them numbers; standardise them"
            )
        if chosen.all() or not chosen.any():
            raise InvalidInput(
                "a linear ranker learns from positives and negatives; one of the two is missing"
            )
        self.weights_ = self._learn(vectors[chosen], vectors[~chosen])
        return self

    def scores(self, features: ArrayLike) -> Floats:
        """(n,) float64 for features (n, d); higher is more likely positive. InvalidInput before `fit`."""
        if not hasattr(self, "weights_"):
            raise InvalidInput("this ranker has learnt nothing yet; call fit first")
        vectors = np.asarray(features, np.float64)
        if vectors.ndim != 2 or vectors.shape[1] != len(self.weights_):
            raise InvalidInput(f"this ranker takes features (n, {len(self.weights_)}), not {vectors.shape}")
        return np.asarray(vectors @ self.weights_)

    @abstractmethod
    def _learn(self, positives: Floats, negatives: Floats) -> Floats:
        """The weights (d,) for positives (m, d) and negatives (n, d)."""
