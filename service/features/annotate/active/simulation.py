"""Simulated annotation of a collection in rounds, with answers from known grades (Kadota et al.)."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.evaluation.significance import group_folds
from cbir.learn.grading.graded_cases import parse_grade
from cbir.learn.severity import stored_ranker
from cbir.learn.severity.judged_pairs import SeverityEstimate
from cbir.learn.severity.sampled_ranker import SampledRanker
from cbir.learn.severity.severity_rankers import read_ranker_inputs
from cbir.learn.severity.stored_ranker import write_severity
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import Condition
from service.features.annotate.active import strategies
from service.features.annotate.active.candidate_pool import Rows
from service.features.annotate.active.pair_selection import (
    select_pairs,
    severity_for_strategy,
    starting_pairs,
)
from service.features.annotate.active.severity_grades import (
    Classified,
    Relative,
    classified,
    compare_grades,
    cost,
    fit_grade_thresholds,
    proportions,
    relative_accuracy,
    uncertainty_by_grade,
)

MIN_IMAGES = 10  # training and test images together
MIN_PARTS, MAX_PARTS = 2, 50  # of the patients; one part is for testing
Show = Callable[[str, int, int], None]
Grades = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GradedImages:
    """Graded images of a collection, split by patient.

    `images` (n, ...), pictures or values of an encoder, with `grades` (n,), their rows for `train` and `test`, and
    the number of images whose picture is `missing`.
    """

    images: NDArray[Any]
    grades: NDArray[np.float64]
    train: Rows
    test: Rows
    missing: int


def load_graded_images(
    collection: Collection,
    column: str,
    ranker: SampledRanker,
    held_out: float,
    where: Sequence[Condition] = (),
    seed: int = 0,
    show: Show = lambda stage, done, total: None,
) -> GradedImages:
    """Load the graded images of a collection and split them by patient.

    Parameters
    ----------
    collection : Collection
    column : str
        Label with the grades.
    ranker : SampledRanker
        Decides what is read of an image.
    held_out : float
        Share of the patients for testing, about.
    where : sequence of Condition
        Conditions on the images.
    seed : int
    show : callable
        Progress callback with stage, done and total.

    Returns
    -------
    GradedImages

    Raises
    ------
    InvalidInput
        If there are too few images, a grade is not a number, or no picture can be read.
    """
    parts = round(1 / held_out) if held_out > 0 else 0
    if not MIN_PARTS <= parts <= MAX_PARTS:
        raise InvalidInput(
            f"the held-out share must be from 1/{MAX_PARTS} to 1/{MIN_PARTS}, not {held_out:g}"
        )

    def has_grade(record: Record) -> bool:
        return bool(record.labels.get(column, "").strip())

    images = read_ranker_inputs(
        collection, ranker, where, has_grade, lambda done, total: show("reading", done, total)
    )
    if len(images.records) < MIN_IMAGES:
        raise InvalidInput(
            f"{len(images.records)} images have a picture and a grade in the label {column!r}; at least "
            f"{MIN_IMAGES} are needed"
        )
    grades = np.array([parse_grade(row.labels[column], column, row.image_id) for row in images.records])
    if grades.min() == grades.max():
        raise InvalidInput(
            f"all {len(grades)} grades in the label {column!r} are equal, so there is nothing to rank"
        )
    keys = [record.patient_key or record.image_id for record in images.records]
    patients = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    train, test = group_folds(grades, patients, parts, seed)[0]
    return GradedImages(images.inputs, grades, train, test, len(images.missing))


def publish_ranker(
    collection: Collection, ranker: SampledRanker, show: Show = lambda stage, done, total: None
) -> int:
    """Store `ranker` in the collection and label all images that have a picture with their severity.

    `show` is a progress callback. Returns the number of labelled images.
    """
    images = read_ranker_inputs(collection, ranker, show=lambda done, total: show("reading", done, total))
    if not images.records:
        return 0
    severity = ranker.severity(images.inputs)
    stored_ranker.store_ranker(collection, ranker, {"images": len(images.records)})
    write_severity(collection, [record.image_id for record in images.records], severity.mean)
    return len(images.records)


@dataclass(frozen=True)
class SimulationPlan:
    """Settings of a simulation.

    `strategy` is one of `strategies.names()`, `rounds` (K) the number after the first, `start` (r) the share of the
    images in the initial pairs, `step` (s) the share selected in each round, and `error_rate` the probability of
    either wrong answer. With `calibrate`, the grades of the images in pairs are learned too.
    """

    strategy: str = strategies.DEFAULT
    rounds: int = 6
    start: float = 0.2
    step: float = 0.05
    error_rate: float = 0.0
    calibrate: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        strategies.strategy(self.strategy)
        if self.rounds < 0 or not 0 < self.start <= 1 or not 0 < self.step <= 1:
            raise InvalidInput("rounds must be 0 or more; start and step must be above 0 and at most 1")
        if not 0 <= self.error_rate <= 1:
            raise InvalidInput(f"the error rate must be from 0 to 1, not {self.error_rate}")


@dataclass(frozen=True)
class SimulationRound:
    """Results after a round; accuracies are on the test images.

    `labelling` is the ratio of pairs to images, 1 for "all data" in the paper; `proportions` the share of each grade
    among the images in pairs; `uncertainty` quantiles of the variance per grade, over the training images; `seconds`
    the time of a person for the pairs and, with calibration, the grades. `classified` evaluates scores rounded to the
    nearest grade, as in the paper, and `classified_by_thresholds` scores between fitted thresholds; None without
    calibration, or with one grade or more than 50. `scores` are of the test images, `variance` of the others.
    """

    number: int
    pairs: int
    images: int
    labelling: float
    relative: Relative
    proportions: dict[str, float]
    uncertainty: dict[str, list[float]]
    seconds: float
    classified: Classified | None
    classified_by_thresholds: Classified | None
    scores: NDArray[np.float32] = field(repr=False)
    variance: NDArray[np.float32] = field(repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the values of single images, for JSON."""
        values = asdict(self)
        for name in ("relative", "scores", "variance"):
            del values[name]
        return {"round": values.pop("number"), **self.relative, **values}


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """Rounds of a simulation, from number 0, with all pairs (rows of training images), their labels, and grades."""

    rounds: list[SimulationRound]
    pairs: Rows
    labels: NDArray[np.float32]
    train_grades: Grades
    test_grades: Grades
    ranker: SampledRanker

    def as_dict(self) -> dict[str, Any]:
        """Return the final accuracies, "overall" and "neighbouring", and all "rounds"."""
        rounds = [round_.as_dict() for round_ in self.rounds]
        return {
            "overall": rounds[-1]["overall"],
            "neighbouring": rounds[-1]["neighbouring"],
            "rounds": rounds,
        }


def answers(grades: Grades, pairs: Rows, error_rate: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Simulate the answers to pairs (eq. 1).

    Parameters
    ----------
    grades : (n,) float64
    pairs : (m, 2) int64
        Rows of `grades`.
    error_rate : float
        Probability of a wrong answer, which is either of the two others.
    rng : numpy.random.Generator

    Returns
    -------
    (m,) float32
        1, 0.5 or 0: the first image is more severe, both are equal, or the second is.
    """
    true = np.sign(grades[pairs[:, 0]] - grades[pairs[:, 1]]).astype(np.int64) + 1  # 0, 1, 2
    wrong = rng.random(len(true)) < error_rate
    codes = (true + wrong * rng.integers(1, 3, len(true))) % 3
    return (codes / 2).astype(np.float32)


def simulate(
    images: NDArray[Any],
    grades: Grades,
    train: Rows,
    test: Rows,
    plan: SimulationPlan,
    make: Callable[[int], SampledRanker],
    begin: Rows | None = None,
    show: Callable[[int, int], None] = lambda done, total: None,
) -> SimulationResult:
    """Select pairs, train and test in rounds.

    Parameters
    ----------
    images : (n, ...)
        Pictures or values, as the ranker takes them.
    grades : (n,) float64
    train, test : (k,) int64
        Disjoint rows of the training and test images.
    plan : SimulationPlan
    make : callable
        Creates an unfitted ranker for a round number.
    begin : (m, 2) int64, optional
        Initial pairs, as positions in `train`, to start several strategies equally; drawn by default.
    show : callable
        Progress callback with completed and total rounds.

    Returns
    -------
    SimulationResult

    Raises
    ------
    InvalidInput
        If training and test images overlap.
    """
    if len(np.intersect1d(train, test)):
        raise InvalidInput("training and test images overlap")
    rng = np.random.default_rng(plan.seed)
    train_images, train_grades = images[train], grades[train]
    pairs = starting_pairs(plan.strategy, len(train), plan.start, rng) if begin is None else begin
    labels = answers(train_grades, pairs, plan.error_rate, rng)
    allowed = np.ones(len(train), bool)
    rounds: list[SimulationRound] = []
    for number in range(plan.rounds + 1):
        compared = np.isin(np.arange(len(train)), pairs)
        pair_grades = np.where(compared, train_grades, np.nan) if plan.calibrate else None
        ranker = make(number).fit(train_images, pairs, labels, pair_grades)
        of_train = severity_for_strategy(plan.strategy, ranker, train_images)
        scores = ranker.severity(images[test]).mean
        rounds.append(_round(number, pairs, train_grades, of_train, scores, grades[test], pair_grades))
        show(number + 1, plan.rounds + 1)
        if number < plan.rounds:
            new = select_pairs(plan.strategy, of_train, pairs.tolist(), plan.step, rng, allowed)
            pairs = np.concatenate([pairs, new])
            labels = np.concatenate([labels, answers(train_grades, new, plan.error_rate, rng)])
    return SimulationResult(rounds, pairs, labels, train_grades, grades[test], ranker)


def _round(
    number: int, pairs: Rows, train_grades: Grades, of_train: SeverityEstimate,
    scores: NDArray[np.float32], test_grades: Grades, learned: Grades | None,
) -> SimulationRound:  # fmt: skip
    """Evaluate a round; `learned` are the grades of the training images that were learned, NaN for the others."""
    images = len(np.unique(pairs))
    rounded = by_thresholds = None
    if learned is not None:
        rounded = classified(scores, test_grades, np.unique(train_grades))
        if thresholds := fit_grade_thresholds(of_train.mean, learned):
            by_thresholds = compare_grades(thresholds(scores), test_grades)
    return SimulationRound(
        number=number,
        pairs=len(pairs),
        images=images,
        labelling=len(pairs) / len(train_grades),
        relative=relative_accuracy(scores, test_grades),
        proportions=proportions(train_grades, pairs),
        uncertainty=uncertainty_by_grade(of_train.variance, train_grades),
        seconds=cost(len(pairs), 0 if learned is None else images),
        classified=rounded,
        classified_by_thresholds=by_thresholds,
        scores=scores,
        variance=of_train.variance,
    )
