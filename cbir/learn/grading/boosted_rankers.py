"""Rankers that add up weak ones: AdaRank (Xu & Li 2007) with Kendall's tau, and RankBoost (Freund et al. 2003)."""

from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.models.ranking_estimator import (
    FeatureRanker,
    LinearRanker,
    ListSize,
    assign_lists,
    kendall_tau,
)

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


Integers = NDArray[np.int64]


class RankBoost(FeatureRanker):
    """A weighted vote of weak rankers, each 1 if a feature is above a threshold, else 0.

    Each round takes the threshold with the largest |r|, r the weighted share of correctly ordered pairs less that of
    the others, and gives it the weight 1/2 ln((1 + r) / (1 - r)) (Freund et al. 2003, 3.2, the third method). Pairs
    are never formed: the exponential loss of a pair is a product (Huang et al. 2010, eq. 11).

    Parameters
    ----------
    rounds : int
        T, the length of `features_`, `thresholds_` (of standardised values) and `weights_`.
    list_size : int, optional
        Images per list; None pairs all images.
    seed : int
        Seed of the lists.
    """

    name: ClassVar[str] = "rankboost"

    def __init__(self, rounds: int = 30, list_size: ListSize = None, seed: int = 0) -> None:
        self.rounds, self.list_size, self.seed = rounds, list_size, seed

    def _learn(self, Z: Floats, grades: Floats, groups: Integers) -> None:
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int) or self.rounds < 1:
            raise InvalidInput(f"the rounds of {self.name} must be at least 1, not {self.rounds!r}")
        lists = assign_lists(len(Z), self.list_size, np.random.default_rng(self.seed))
        order = np.argsort(Z, axis=0).astype(np.int32)
        scores, votes = np.zeros(len(Z)), []
        for _ in range(self.rounds):
            potential = _potential(scores, grades, lists)
            r, feature, threshold = _best(Z, order, potential)
            weight = 0.5 * np.log((1.0 + r) / (1.0 - r))
            if weight == 0.0:
                break
            scores += weight * (Z[:, feature] > threshold)
            votes.append((feature, threshold, weight))
        table = np.array(votes).reshape(-1, 3)
        self.features_ = table[:, 0].astype(np.int64)
        self.thresholds_, self.weights_ = table[:, 1], table[:, 2]

    def _scores(self, Z: Floats) -> Floats:
        return cast(Floats, (Z[:, self.features_] > self.thresholds_) @ self.weights_)


def _potential(scores: Floats, grades: Floats, lists: Integers) -> Floats:
    """Return (n,) the weight of the pairs with an image as the higher one, less those with it as the lower one.

    All pairs weigh 1 together.
    """
    order = np.lexsort((grades, lists))
    centred = scores[order] - scores.mean()
    up, down = np.exp(centred), np.exp(-centred)
    in_list = lists[order]
    new_level = (np.diff(in_list) != 0) | (np.diff(grades[order]) != 0)
    level = np.concatenate([[0], np.cumsum(new_level)])  # its number, over all lists
    first, last = (np.searchsorted(in_list, in_list, side) for side in ("left", "right"))
    starts, stops = (np.searchsorted(level, level, side) for side in ("left", "right"))
    ups, downs = (np.concatenate([[0.0], np.cumsum(values)]) for values in (up, down))
    as_higher = down * (ups[starts] - ups[first])
    as_lower = up * (downs[last] - downs[stops])
    potential = np.empty(len(order))
    potential[order] = (as_higher - as_lower) / as_higher.sum()
    return potential


def _best(Z: Floats, order: NDArray[np.int32], potential: Floats) -> tuple[float, int, float]:
    """Return r, feature and threshold of the largest |r|."""
    best = (0.0, 0, 0.0)
    for feature in range(Z.shape[1]):
        rows = order[:, feature]
        values = Z[rows, feature]
        above = -np.cumsum(potential[rows])[:-1]  # all potentials sum to 0
        above[values[1:] == values[:-1]] = 0.0  # no threshold separates equal values
        if not len(above):
            break
        cut = int(np.argmax(np.abs(above)))
        if abs(above[cut]) > abs(best[0]) + 1e-12:
            best = (float(above[cut]), feature, float((values[cut] + values[cut + 1]) / 2.0))
    return float(np.clip(best[0], -MOST, MOST)), best[1], best[2]
