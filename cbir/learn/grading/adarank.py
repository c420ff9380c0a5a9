"""AdaRank (Xu & Li 2007) with Kendall's tau: features as weak rankers, more weight for badly ranked lists."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.models.linear.ranking_estimator import LinearRanker
from cbir.learn.models.linear.ranking_lists import ListSize, assign_lists, kendall_tau

Floats = NDArray[np.float64]

MOST = 1.0 - 1e-9  # of a quality: a ranker without error would have infinite weight


class AdaRank(LinearRanker):
    """A weighted sum of standardised features (Huang et al. 2010, eq. 12).

    Each round adds the feature, or its negative, with the best tau over the weighted lists, then gives more weight to
    lists that the sum ranks badly. With a single list, its best feature wins every round.

    Parameters
    ----------
    rounds : int
        T.
    list_size : int, optional
        Images per list; None: one list.
    seed : int
        Seed of the lists.
    """

    name: ClassVar[str] = "adarank"

    def __init__(self, rounds: int = 30, list_size: ListSize = 100, seed: int = 0) -> None:
        self.rounds, self.list_size, self.seed = rounds, list_size, seed

    def _learn(self, Z: Floats, grades: Floats, groups: NDArray[np.int64]) -> None:
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int) or self.rounds < 1:
            raise InvalidInput(f"the rounds of {self.name} must be at least 1, not {self.rounds!r}")
        lists = assign_lists(len(Z), self.list_size, np.random.default_rng(self.seed))
        taus = np.stack([kendall_tau(column, grades, lists) for column in Z.T])  # (d, lists)
        self.coef_ = np.zeros(Z.shape[1])
        weights = np.full(taus.shape[1], 1.0 / taus.shape[1])
        for _ in range(self.rounds):
            means = taus @ weights
            feature = int(np.argmax(np.abs(means)))
            sign = 1.0 if means[feature] >= 0 else -1.0
            quality = min(abs(float(means[feature])), MOST)
            self.coef_[feature] += sign * 0.5 * np.log((1.0 + quality) / (1.0 - quality))
            errors = np.exp(-kendall_tau(Z @ self.coef_, grades, lists))
            weights = errors / errors.sum()
