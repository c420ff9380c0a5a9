"""Agreement of annotators on the pairs and images that several of them judged."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from service.features.annotate.active.judgement_journal import LABELS, ImageGrade, PairJudgement

Level = Literal["nominal", "ordinal"]


@dataclass(frozen=True)
class PairwiseAgreement:
    """Agreement of two people on the `pairs` (or images) that they share: on `agreed` of them the answer is the same.

    Cohen's `kappa` is None if undefined; that of grades has quadratic weights.
    """

    one: str
    other: str
    pairs: int
    agreed: int
    kappa: float | None


@dataclass(frozen=True)
class AnnotatorAgreement:
    """Agreement of all people on the `pairs` that at least two of them judged.

    `alpha` is Krippendorff's, None if undefined. Answers are ordered (first, alike, second), so an opposite answer
    lowers the ordinal alpha more than "alike".
    """

    people: int
    pairs: int
    alpha: float | None
    alpha_nominal: float | None
    between: tuple[PairwiseAgreement, ...]


def annotator_agreement(judgements: Iterable[PairJudgement]) -> AnnotatorAgreement:
    """Return the agreement in valid `judgements`; skipped pairs do not count."""
    return _agreement(_answers_by_pair(judgements), quadratic=False)


def grade_agreement(grades: Iterable[ImageGrade]) -> AnnotatorAgreement:
    """Return the agreement in valid `grades` of images; its `pairs` are images that two or more people graded.

    Images that a person could not judge do not count.
    """
    answers: dict[str, dict[str, float]] = defaultdict(dict)
    for each in grades:
        if each.grade is not None:
            answers[each.image][each.who] = each.grade
    return _agreement(answers, quadratic=True)


def _agreement(answers: Mapping[Any, Mapping[str, float]], quadratic: bool) -> AnnotatorAgreement:
    """Return the agreement in `answers` by question and person."""
    people = sorted({who for by_person in answers.values() for who in by_person})
    shared = [by_person for by_person in answers.values() if len(by_person) > 1]
    table = np.array([[by_person.get(who, np.nan) for by_person in shared] for who in people], np.float64)
    table = table.reshape(len(people), len(shared))
    return AnnotatorAgreement(
        len(people),
        len(shared),
        krippendorff_alpha(table, "ordinal"),
        krippendorff_alpha(table, "nominal"),
        tuple(_pairwise(first, second, shared, quadratic) for first, second in combinations(people, 2)),
    )


def cohen_kappa(first: Sequence[int], second: Sequence[int]) -> float | None:
    """Return Cohen's kappa of the answers of two people to the same questions (Cohen 1960), by scikit-learn.

    None without answers, or if both always gave the same one, which leaves no chance agreement to correct for.
    """
    if not len(first) or len(set(first) | set(second)) < 2:
        return None
    from sklearn.metrics import cohen_kappa_score  # slow to import; the annotation server starts without it

    return float(cohen_kappa_score(list(first), list(second)))


def krippendorff_alpha(table: ArrayLike, level: Level = "ordinal") -> float | None:
    """Return Krippendorff's alpha of `table` (people, questions), whole numbers with NaN for missing answers.

    Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), section C with the coincidence matrix.
    `level` selects the distance. None if no question has two answers, or if all answers are the same.
    """
    answers = np.asarray(table, np.float64)
    present = ~np.isnan(answers)
    questions = np.flatnonzero(present.sum(axis=0) > 1) if answers.size else np.empty(0, np.int64)
    values = np.unique(answers[:, questions][present[:, questions]]) if len(questions) else np.empty(0)
    if len(values) < 2:
        return None
    return alpha_of_coincidences(coincidences(answers, values), level)


def coincidences(table: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coincidence matrix (v, v) of the answers (people, questions) that are among the v `values`.

    That of several tables is the sum of theirs.
    """
    # (questions, values): number of people with that answer
    counts = (table[:, :, None] == values).sum(axis=0)
    counts = counts[counts.sum(axis=1) > 1]
    weighted = counts / (counts.sum(axis=1, keepdims=True) - 1)
    return np.asarray(weighted.T @ counts - np.diag(weighted.sum(axis=0)))


def alpha_of_coincidences(together: NDArray[np.float64], level: Level) -> float | None:
    """Return Krippendorff's alpha of a coincidence matrix (v, v) of v ascending values; None if undefined."""
    totals = together.sum(axis=0)
    if np.count_nonzero(totals) < 2:
        return None
    middles = np.cumsum(totals) - totals / 2
    ordinal = (middles[:, None] - middles[None, :]) ** 2
    distance = ordinal if level == "ordinal" else 1.0 - np.eye(len(totals))
    expected = float((np.outer(totals, totals) * distance).sum() / (totals.sum() - 1))
    return 1.0 - float((together * distance).sum()) / expected


def _answers_by_pair(judgements: Iterable[PairJudgement]) -> dict[tuple[str, str], dict[str, float]]:
    """Return answers by pair and person, relative to the image with the smaller id."""
    answers: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for judgement in judgements:
        if judgement.answer in LABELS:
            sign = 1 if judgement.pair[0] == judgement.first else -1
            answers[judgement.pair][judgement.who] = sign * (2 * LABELS[judgement.answer] - 1)
    return answers


def _pairwise(
    first: str, second: str, shared: Sequence[Mapping[str, float]], quadratic: bool
) -> PairwiseAgreement:
    common = [answers for answers in shared if first in answers and second in answers]
    ours, theirs = ([answers[who] for answers in common] for who in (first, second))
    if quadratic:
        from cbir.learn.grading.grade_scale import quadratic_kappa  # imports scikit-learn

        kappa = quadratic_kappa(np.array(ours), np.array(theirs)) if common else float("nan")
        weighted = None if np.isnan(kappa) else kappa
    else:
        weighted = cohen_kappa(list(map(int, ours)), list(map(int, theirs)))
    agreed = sum(one == other for one, other in zip(ours, theirs, strict=True))
    return PairwiseAgreement(first, second, len(common), agreed, weighted)
