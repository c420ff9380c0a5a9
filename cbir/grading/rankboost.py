"""RankBoost (Freund et al. 2003): thresholds on single features, boosted on the exponential loss of pairs."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.models.linear.ranking_estimator import RankingEstimator
from cbir.models.linear.ranking_lists import ListSize, assign_lists

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST = 1.0 - 1e-9  # of |r|: a ranker without an error would weigh infinitely


class RankBoost(RankingEstimator):
    """A weighted vote of weak rankers, each 1 where one feature is above a threshold, else 0.

    Each round takes the threshold with the largest |r|, r the weighted share of pairs ordered rightly less those
    ordered wrongly, and weighs it 1/2 ln((1 + r) / (1 - r)) (Freund et al. 2003, 3.2, the third method). Pairs of
    one list are never formed: the exponential loss of a pair is a product (eq. 11 of Huang et al. 2010).

    rounds: T. list_size: None pairs all images. features_, thresholds_ (of standardised values), weights_: (T,).
    """

    name: ClassVar[str] = "rankboost"

    def __init__(self, rounds: int = 30, list_size: ListSize = None, seed: int = 0) -> None:
        self.rounds = rounds
        self.list_size = list_size
        self.seed = seed

    def _learn(self, Z: Floats, grades: Floats, groups: Integers) -> None:
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int) or self.rounds < 1:
            raise InvalidInput(f"the rounds of {self.name} are 1 or more, not {self.rounds!r}")
        lists = assign_lists(len(Z), self.list_size, np.random.default_rng(self.seed))
        order = np.argsort(Z, axis=0).astype(np.int32)
        scores, taken = np.zeros(len(Z)), []
        for _ in range(self.rounds):
            potential = _potential(scores, grades, lists)
            r, feature, threshold = _best(Z, order, potential)
            weight = 0.5 * np.log((1.0 + r) / (1.0 - r))
            if weight == 0.0:
                break
            scores += weight * (Z[:, feature] > threshold)
            taken.append((feature, threshold, weight))
        found = np.array(taken).reshape(-1, 3)
        self.features_ = found[:, 0].astype(np.int64)
        self.thresholds_, self.weights_ = found[:, 1], found[:, 2]

    def _scores(self, Z: Floats) -> Floats:
        return (Z[:, self.features_] > self.thresholds_) @ self.weights_


def _potential(scores: Floats, grades: Floats, lists: Integers) -> Floats:
    """(n,) the weight of all pairs that an image is the higher of, less those it is the lower of; pairs sum to 1."""
    order = np.lexsort((grades, lists))
    centred = scores[order] - scores.mean()
    up, down = np.exp(centred), np.exp(-centred)
    in_list, in_level = lists[order], grades[order]
    new_list = np.concatenate([[True], np.diff(in_list) != 0])
    new_level = new_list | np.concatenate([[True], np.diff(in_level) != 0])
    starts = np.flatnonzero(new_level)[np.cumsum(new_level) - 1]
    first = np.flatnonzero(new_list)[np.cumsum(new_list) - 1]
    stops = np.append(np.flatnonzero(new_level)[1:], len(order))[np.cumsum(new_level) - 1]
    last = np.append(np.flatnonzero(new_list)[1:], len(order))[np.cumsum(new_list) - 1]
    ups, downs = (np.concatenate([[0.0], np.cumsum(values)]) for values in (up, down))
    as_higher = down * (ups[starts] - ups[first])
    as_lower = up * (downs[last] - downs[stops])
    potential = np.empty(len(order))
    potential[order] = (as_higher - as_lower) / as_higher.sum()
    return potential


def _best(Z: Floats, order: NDArray[np.int32], potential: Floats) -> tuple[float, int, float]:
    """The largest |r| of all features and thresholds: r, feature, threshold."""
    best = (0.0, 0, 0.0)
    for feature in range(Z.shape[1]):
        rows = order[:, feature]
        values = Z[rows, feature]
        above = -np.cumsum(potential[rows])[:-1]  # all potentials sum to 0
        above[values[1:] == values[:-1]] = 0.0  # no threshold parts equals
        if not len(above):
            break
        place = int(np.argmax(np.abs(above)))
        if abs(above[place]) > abs(best[0]) + 1e-12:
            best = (float(above[place]), feature, float((values[place] + values[place + 1]) / 2.0))
    return float(np.clip(best[0], -MOST, MOST)), best[1], best[2]
