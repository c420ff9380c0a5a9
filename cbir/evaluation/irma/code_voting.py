"""The answer of least expected error, from the votes of an image's neighbours.

The neighbours' labels, weighted by their distances, are taken as the probabilities of the true label. For each
axis of a code every beginning of a known code, the rest `*`, is weighed by its expected cost, and the cheapest is
answered (Bayes decision with a reject option, Chow 1970). How many neighbours vote, how fast their weight falls
and what share of the votes a digit needs is chosen by leave-one-out on training images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cbir.datasets.irma import CodeTree
from cbir.datasets.irma.codes import AXIS_SLICES
from cbir.evaluation.irma.code_error import DONT_KNOW, ErrorRule, code_prefixes, deviations, prepare_truth

COUNTS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)  # neighbours that vote
SHARPNESSES = (0.0, 2.0, 4.0, 8.0, 16.0)  # 0: all votes alike; more: the nearer the neighbour, the heavier
THRESHOLDS = (
    0.5,
    0.4,
    0.6,
    0.3,
    0.7,
    0.2,
    0.8,
    0.1,
    0.9,
)  # share of the votes for a digit; of equals the first
ROUNDING = 12  # decimals of expected costs: equal ones must compare as equal for the shortest to win


@dataclass(frozen=True, eq=False)
class Decision:
    """One thing to decide: an axis of the code, or a class.

    answers: B of them, those that say least first. wrong: (C, B) float64, what each of them costs by wrong
    digits where the C-th label is true; unsure: (C, B), what it would cost by `*` if that were wrong.
    """

    answers: list[str]
    wrong: NDArray[np.float64]
    unsure: NDArray[np.float64]

    def costs(self, votes: NDArray[np.float64], star: float) -> NDArray[np.float64]:
        """Expected costs (n, B) under votes (n, C), `*` at the price `star` of a wrong digit."""
        return votes @ self.wrong + star * (votes @ self.unsure)


@dataclass(frozen=True, eq=False)
class NeighbourLabels:
    """What the search found for each query.

    labels: (n, K) int64, number of the neighbour's label, nearest first; -1 where there is no neighbour or it
    has no label. distances: (n, K) float64.
    """

    labels: NDArray[np.int64]
    distances: NDArray[np.float64]


@dataclass(frozen=True)
class VotingSetting:
    """How votes are counted: by how many neighbours, weighted (nearest distance / distance) ** sharpness; a
    digit is answered where more than about the share `threshold` of the votes is for it, `*` otherwise."""

    neighbours: int
    sharpness: float
    threshold: float


@dataclass(frozen=True)
class TunedVoting:
    """The chosen setting, and the mean error of an image as expected for new ones."""

    setting: VotingSetting
    error: float


def code_decisions(codes: Sequence[str], tree: CodeTree, rule: ErrorRule) -> list[Decision]:
    """The four axes of `codes`, the C distinct true codes known from training."""
    truth, choices = prepare_truth(codes, tree, rule), []
    for axis, place in enumerate(AXIS_SLICES):
        answers = code_prefixes([code.split("-")[axis] for code in codes])
        characters = np.array([list(answer.encode()) for answer in answers], np.uint8)
        wrong, unsure = deviations(truth.characters[:, None, place], characters[None], rule)
        costs = truth.costs[:, None, place]
        choices.append(Decision(answers, (costs * wrong).sum(axis=2), (costs * unsure).sum(axis=2)))
    return choices


def class_decisions(classes: Sequence[str]) -> list[Decision]:
    """The one choice among classes: any wrong one costs 1 (error rate of ImageCLEF 2005 and 2006)."""
    count = len(classes)
    return [Decision(list(classes), 1.0 - np.eye(count), np.zeros((count, count)))]


def label_shares(found: NeighbourLabels, setting: VotingSetting, count: int) -> NDArray[np.float64]:
    """(n, count) share of the votes for each label; rows add up to 1, or to 0 where nobody votes."""
    labels, distances = found.labels[:, : setting.neighbours], found.distances[:, : setting.neighbours]
    voting = labels >= 0
    nearest = np.min(distances, axis=1, keepdims=True, where=voting, initial=np.inf)
    nearest[np.isinf(nearest)] = 1.0
    tiny = np.finfo(np.float64).tiny
    weights = np.where(voting, ((nearest + tiny) / (distances + tiny)) ** setting.sharpness, 0.0)
    rows = np.arange(len(labels))[:, None] * count
    flat = np.bincount((rows + labels)[voting], weights[voting], minlength=len(labels) * count)
    total = flat.astype(np.float64).reshape(len(labels), count)  # integers where there is nothing to count
    return np.divide(total, total.sum(axis=1, keepdims=True), out=total, where=total > 0)


def decide_answers(
    shares: NDArray[np.float64], choices: Sequence[Decision], threshold: float
) -> list[NDArray[np.int64]]:
    """For each choice the places (n,) of the cheapest answers; of equally cheap ones that which says least.

    A last digit with the share p of the votes costs 1 - p of a wrong digit on average, and is answered where
    that is less than `*` is taken to cost, 1 - threshold: with 0.5 costs are those of the rule, more asks for
    more agreement, because near neighbours agree more often than they are right.
    """
    return [np.argmin(np.round(choice.costs(shares, 1 - threshold), ROUNDING), axis=1) for choice in choices]


def decision_errors(
    true: NDArray[np.int64], answered: Sequence[NDArray[np.int64]], choices: Sequence[Decision]
) -> NDArray[np.float64]:
    """(n,) errors of answers where the labels numbered `true` (n,) are the true ones, by the rule."""
    costs = [choice.wrong + DONT_KNOW * choice.unsure for choice in choices]
    return np.sum([cost[true, places] for cost, places in zip(costs, answered, strict=True)], axis=0)


def tune_voting(found: NeighbourLabels, true: NDArray[np.int64], choices: Sequence[Decision]) -> TunedVoting:
    """The setting of least mean error on training images (n,), each of them searched without itself.

    The error to expect is that of one half of the images with the setting chosen on the other, both ways: an
    error of the images that the setting was chosen on would be too good.
    """
    settings = _settings(found.labels.shape[1], any(choice.unsure.any() for choice in choices))
    tried = np.array(
        [decision_errors(true, decided, choices) for decided in _decisions(found, choices, settings)]
    )
    even = np.arange(len(true)) % 2 == 0
    crossed = np.empty(len(true))
    for half in (even, ~even):
        if half.any():
            other = ~half if (~half).any() else half
            crossed[half] = tried[np.argmin(tried[:, other].mean(axis=1))][half]
    return TunedVoting(settings[int(np.argmin(tried.mean(axis=1)))], float(crossed.mean()))


def _settings(most: int, thresholds: bool) -> list[VotingSetting]:
    counts = [count for count in COUNTS if count <= most]
    return [
        VotingSetting(count, sharpness, threshold)
        for count, sharpness, threshold in product(counts, SHARPNESSES, THRESHOLDS if thresholds else (0.5,))
        if count > 1 or (sharpness, threshold) == (0.0, 0.5)  # a single vote is always unanimous
    ]


def _decisions(
    found: NeighbourLabels, choices: Sequence[Decision], settings: Sequence[VotingSetting]
) -> "list[list[NDArray[np.int64]]]":
    count = len(choices[0].wrong)
    return [
        decide_answers(label_shares(found, setting, count), choices, setting.threshold)
        for setting in settings
    ]
