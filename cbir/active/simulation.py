"""Rounds of asking with answers from known grades (Kadota et al., sections 3 and 5)."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.active import strategies
from cbir.active.candidate_pool import Rows
from cbir.active.pair_selection import first_pairs, select_pairs
from cbir.active.simulation_metrics import (
    Relative,
    classified,
    cost,
    proportions,
    relative_accuracy,
    uncertainty_by_grade,
)
from cbir.errors import InvalidInput
from cbir.severity.bayesian_ranker import BayesianRanker, Pictures
from cbir.severity.severity_estimate import SeverityEstimate

Grades = NDArray[np.float64]
Show = Callable[[int, int], None]


@dataclass(frozen=True)
class SimulationPlan:
    """How a simulation goes on.

    strategy: one of `strategies.names()`. rounds: K, after the first. start: r, the share of the images that the
    first pairs are of. step: s, the share that each round chooses. error_rate: how often an answer is one of the two
    wrong ones. calibrate: also learn grades, those of the images in pairs.
    """

    strategy: str = "variance"
    rounds: int = 6
    start: float = 0.2
    step: float = 0.05
    error_rate: float = 0.0
    calibrate: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        strategies.strategy(self.strategy)
        if self.rounds < 0 or not 0 < self.start <= 1 or not 0 < self.step <= 1:
            raise InvalidInput(
                "rounds are 0 or more; the shares to start with and of a step are above 0, up to 1"
            )
        if not 0 <= self.error_rate <= 1:
            raise InvalidInput(f"the rate of errors is from 0 to 1, not {self.error_rate}")


@dataclass(frozen=True)
class Round:
    """What was known after a round, and how good it was on images that were not learnt from.

    labelling: pairs in relation to images, 1 is "all data" in the paper. proportions: share of each grade among the
    images in pairs. uncertainty: quantiles of each grade's variance, over the images learnt from. seconds: of a
    person, for the pairs and, where grades are learnt, those. scores: of the images to test on. variance: of those
    learnt from.
    """

    number: int
    pairs: int
    images: int
    labelling: float
    relative: Relative
    proportions: dict[str, float]
    uncertainty: dict[str, list[float]]
    seconds: float
    classified: dict[str, float] | None
    scores: NDArray[np.float32] = field(repr=False)
    variance: NDArray[np.float32] = field(repr=False)

    def told(self) -> dict[str, Any]:
        """All but what is of single images, for JSON."""
        values = asdict(self)
        for name in ("relative", "scores", "variance"):
            del values[name]
        return {"round": values.pop("number"), **self.relative, **values}


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """rounds: the first has number 0. pairs, labels: all that were asked, rows of the images learnt from.

    known, tested: grades of the images learnt from and tested on.
    """

    rounds: list[Round]
    pairs: Rows
    labels: NDArray[np.float32]
    known: Grades
    tested: Grades
    ranker: BayesianRanker

    def told(self) -> dict[str, Any]:
        """{"overall", "neighbouring", "rounds"}: the last round's accuracies, and every round's."""
        last = self.rounds[-1].relative
        return {
            "overall": last["overall"],
            "neighbouring": last["neighbouring"],
            "rounds": [one.told() for one in self.rounds],
        }


def answers(grades: Grades, pairs: Rows, error_rate: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Labels (m,) of pairs by known grades (eq. 1); a wrong one is either of the two others."""
    true = np.sign(grades[pairs[:, 0]] - grades[pairs[:, 1]]).astype(np.int64) + 1  # 0, 1, 2
    wrong = rng.random(len(true)) < error_rate
    said = (true + wrong * rng.integers(1, 3, len(true))) % 3
    return (said / 2).astype(np.float32)


def simulate(
    pictures: Pictures,
    grades: Grades,
    train: Rows,
    test: Rows,
    plan: SimulationPlan,
    make: Callable[[int], BayesianRanker],
    begin: Rows | None = None,
    show: Show = lambda done, total: None,
) -> SimulationResult:
    """Ask, learn and test in rounds.

    pictures: (n, h, w) uint8. grades: (n,). train, test: rows of these, without one in common. make: a ranker for the
    round of that number, not yet fitted. begin: pairs of places in `train` to begin with, so that strategies start
    alike; None: drawn. show: is told rounds done and in all. Raises InvalidInput.
    """
    if len(np.intersect1d(train, test)):
        raise InvalidInput("images to learn from and images to test on have some in common")
    rng = np.random.default_rng(plan.seed)
    seen, known = pictures[train], grades[train]
    pairs = first_pairs(len(train), plan.start, None, rng) if begin is None else begin
    labels = answers(known, pairs, plan.error_rate, rng)
    everyone = np.ones(len(train), bool)
    rounds: list[Round] = []
    for number in range(plan.rounds + 1):
        ranker = make(number).fit(seen, pairs, labels, _grades_of(pairs, known) if plan.calibrate else None)
        of_train, of_test = ranker.severity(seen), ranker.severity(pictures[test])
        rounds.append(_round(number, pairs, known, of_train, of_test, grades[test], plan.calibrate))
        show(number + 1, plan.rounds + 1)
        if number < plan.rounds:
            asked = [(int(first), int(second)) for first, second in pairs]
            new = select_pairs(plan.strategy, of_train, asked, plan.step, rng, everyone)
            pairs = np.concatenate([pairs, new])
            labels = np.concatenate([labels, answers(known, new, plan.error_rate, rng)])
    return SimulationResult(rounds, pairs, labels, known, grades[test], ranker)


def _grades_of(pairs: Rows, grades: Grades) -> Grades:
    """Grades of the images in pairs, NaN for all others: nobody was asked for those."""
    known = np.full(len(grades), np.nan)
    inside = np.unique(pairs)
    known[inside] = grades[inside]
    return known


def _round(
    number: int,
    pairs: Rows,
    known: Grades,
    of_train: SeverityEstimate,
    of_test: SeverityEstimate,
    tested: Grades,
    calibrated: bool,
) -> Round:
    images = len(np.unique(pairs))
    return Round(
        number=number,
        pairs=len(pairs),
        images=images,
        labelling=len(pairs) / len(known),
        relative=relative_accuracy(of_test.mean, tested),
        proportions=proportions(known, pairs),
        uncertainty=uncertainty_by_grade(of_train.variance, known),
        seconds=cost(len(pairs), images if calibrated else 0),
        classified=dict(classified(of_test.mean, tested, np.unique(known))) if calibrated else None,  # type: ignore[arg-type]
        scores=of_test.mean,
        variance=of_train.variance,
    )
