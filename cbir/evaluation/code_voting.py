"""Answers of least expected error, by votes of an image's nearest neighbours.

The neighbours' labels, weighted by distance, are taken as probabilities of the true label. For each axis of a code
the prefix of a training code, padded with `*`, of least expected cost is answered (Bayes decision with a reject
option, Chow 1970). The number of neighbours, the decay of their weights and the share of votes that a digit needs
are chosen by leave-one-out on training images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.code_error import DONT_KNOW, ErrorRule, code_prefixes, deviations, prepare_truth
from cbir.evaluation.datasets.irma.codes import AXIS_SLICES, CodeTree

COUNTS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)  # neighbours that vote
SHARPNESSES = (0.0, 2.0, 4.0, 8.0, 16.0)  # 0: equal votes; larger: nearer neighbours weigh more
# Share of the votes for a digit; of equally good ones the first.
THRESHOLDS = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9)
ROUNDING = 12  # decimals of expected costs: equal costs must compare as equal for the shortest to win


@dataclass(frozen=True, eq=False)
class Decision:
    """An axis of the code to decide, or a class.

    answers: B possible answers, least specific first. wrong: (C, B) float64, cost of their wrong digits if the
    C-th label is true; unsure: (C, B), cost of their `*` if those were wrong digits.
    """

    answers: list[str]
    wrong: NDArray[np.float64]
    unsure: NDArray[np.float64]

    def costs(self, votes: NDArray[np.float64], star: float) -> NDArray[np.float64]:
        """Return expected costs (n, B) for votes (n, C), `*` at the share `star` of a wrong digit."""
        return np.asarray(votes @ self.wrong + star * (votes @ self.unsure))


@dataclass(frozen=True, eq=False)
class NeighbourLabels:
    """Nearest neighbours of n queries.

    labels: (n, K) int64, number of the neighbour's label, nearest first; -1 for no neighbour or no label.
    distances: (n, K) float64.
    """

    labels: NDArray[np.int64]
    distances: NDArray[np.float64]


@dataclass(frozen=True)
class VotingSetting:
    """Parameters of the vote.

    neighbours: number that vote, weighted (nearest distance / distance) ** sharpness. threshold: share of the
    votes above which about a digit is answered, else `*`.
    """

    neighbours: int
    sharpness: float
    threshold: float


@dataclass(frozen=True)
class TunedVoting:
    """Best setting, and the expected mean error of a new image."""

    setting: VotingSetting
    error: float


def code_decisions(codes: Sequence[str], tree: CodeTree, rule: ErrorRule) -> list[Decision]:
    """Return the decisions on the four axes.

    Parameters
    ----------
    codes : sequence of str
        The C distinct codes of the training images.
    tree : CodeTree
    rule : ErrorRule
    """
    truth, decisions = prepare_truth(codes, tree, rule), []
    for axis, columns in enumerate(AXIS_SLICES):
        answers = code_prefixes([code.split("-")[axis] for code in codes])
        characters = np.array([list(answer.encode()) for answer in answers], np.uint8)
        wrong, unsure = deviations(truth.characters[:, None, columns], characters[None], rule)
        costs = truth.costs[:, None, columns]
        decisions.append(Decision(answers, (costs * wrong).sum(axis=2), (costs * unsure).sum(axis=2)))
    return decisions


def class_decisions(classes: Sequence[str]) -> list[Decision]:
    """Return the one decision among classes: a wrong one costs 1 (error rate of ImageCLEF 2005 and 2006)."""
    count = len(classes)
    return [Decision(list(classes), 1.0 - np.eye(count), np.zeros((count, count)))]


def label_shares(neighbours: NeighbourLabels, setting: VotingSetting, count: int) -> NDArray[np.float64]:
    """Return the share of votes for each label; rows add up to 1, or to 0 without votes.

    Parameters
    ----------
    neighbours : NeighbourLabels
        Of n queries.
    setting : VotingSetting
    count : int
        Number of labels.

    Returns
    -------
    (n, count) float64
    """
    used = slice(setting.neighbours)
    labels, distances = neighbours.labels[:, used], neighbours.distances[:, used]
    voting = labels >= 0
    nearest = np.min(distances, axis=1, keepdims=True, where=voting, initial=np.inf)
    nearest[np.isinf(nearest)] = 1.0
    distances = np.where(voting, distances, nearest)  # else those without a vote may overflow
    tiny = np.finfo(np.float64).tiny
    weights = np.where(voting, ((nearest + tiny) / (distances + tiny)) ** setting.sharpness, 0.0)
    rows = np.arange(len(labels))[:, None] * count
    flat = np.bincount((rows + labels)[voting], weights[voting], minlength=len(labels) * count)
    total = flat.astype(np.float64).reshape(len(labels), count)  # integers if there is nothing to count
    return np.asarray(np.divide(total, total.sum(axis=1, keepdims=True), out=total, where=total > 0))


def decide_answers(
    shares: NDArray[np.float64], decisions: Sequence[Decision], threshold: float
) -> list[NDArray[np.int64]]:
    """Return the indices (n,) of the cheapest answers to each decision, of equally cheap ones the least specific.

    A last digit with the share p of the votes costs 1 - p of a wrong digit on average, and is answered if that is
    less than 1 - threshold. With 0.5 the costs are those of the rule; more demands more agreement, because near
    neighbours agree more often than they are right.

    Parameters
    ----------
    shares : (n, C) float64
        Of `label_shares`.
    decisions : sequence of Decision
    threshold : float
        0 to 1.
    """
    return [
        np.argmin(np.round(decision.costs(shares, 1 - threshold), ROUNDING), axis=1) for decision in decisions
    ]


def decision_errors(
    true: NDArray[np.int64], answered: Sequence[NDArray[np.int64]], decisions: Sequence[Decision]
) -> NDArray[np.float64]:
    """Return the errors (n,) of answers.

    Parameters
    ----------
    true : (n,) int64
        Numbers of the true labels.
    answered : sequence of (n,) int64
        Of `decide_answers`.
    decisions : sequence of Decision
    """
    costs = [decision.wrong + DONT_KNOW * decision.unsure for decision in decisions]
    return np.asarray(sum(cost[true, indices] for cost, indices in zip(costs, answered, strict=True)))


def tune_voting(
    neighbours: NeighbourLabels, true: NDArray[np.int64], decisions: Sequence[Decision]
) -> TunedVoting:
    """Return the setting of least mean error on training images.

    The expected error is that of each half of the images with the setting chosen on the other half: on the same
    images it would be too optimistic.

    Parameters
    ----------
    neighbours : NeighbourLabels
        Of n training images, each searched without itself.
    true : (n,) int64
        Numbers of their labels.
    decisions : sequence of Decision
    """
    settings = _settings(neighbours.labels.shape[1], any(decision.unsure.any() for decision in decisions))
    tried = np.empty((len(settings), len(true)))
    for errors, setting in zip(tried, settings, strict=True):
        shares = label_shares(neighbours, setting, len(decisions[0].wrong))
        decided = decide_answers(shares, decisions, setting.threshold)
        errors[:] = decision_errors(true, decided, decisions)
    even = np.arange(len(true)) % 2 == 0
    crossed = np.empty(len(true))
    for half in (even, ~even):
        if half.any():
            other = ~half if (~half).any() else half
            crossed[half] = tried[np.argmin(tried[:, other].mean(axis=1))][half]
    return TunedVoting(settings[int(np.argmin(tried.mean(axis=1)))], float(crossed.mean()))


def _settings(depth: int, thresholds: bool) -> list[VotingSetting]:
    counts = [count for count in COUNTS if count <= depth]
    return [
        VotingSetting(count, sharpness, threshold)
        for count, sharpness, threshold in product(counts, SHARPNESSES, THRESHOLDS if thresholds else (0.5,))
        if count > 1 or (sharpness, threshold) == (0.0, 0.5)  # a single vote is always unanimous
    ]
