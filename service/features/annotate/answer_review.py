"""Review of a study: valid answers with their history, and those that others or the model contradict."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from service.features.annotate.active.judgement_journal import (
    Entry,
    ImageGrade,
    PairAnswer,
    PairJudgement,
    Undo,
)
from service.features.annotate.study_files import TrainedModel
from service.features.annotate.study_plan import StudyPlan
from service.features.annotate.study_results import given_grades, predict_grades

Answer = PairJudgement | ImageGrade
Disagreement = Literal["model", "people"]
LABELS = {PairAnswer.first: 1.0, PairAnswer.alike: 0.5, PairAnswer.second: 0.0}
CANNOT_JUDGE = "none"  # decision about a single image


@dataclass(frozen=True)
class ReviewedAnswer:
    """A valid answer.

    `earlier` are the answers of the same person about the same images that it replaced, oldest first, without
    withdrawn ones. `others` are those of other people. `surprise` says how far the model is from the answer: for a
    pair from 0 to 1, the difference of the probability that the first image is more severe from 1, 0.5 or 0; for a
    grade the number of grades between it and the predicted one. It is None without a model.
    """

    answer: Answer
    earlier: tuple[Answer, ...]
    others: tuple[Answer, ...]
    surprise: float | None

    @property
    def decision(self) -> str:
        """The answer about a pair, or the grade as text."""
        return decision_of(self.answer)

    @property
    def contradicts_model(self) -> bool:
        """True if the model prefers the other image, is sure of a difference (0.9), or predicts another grade."""
        if self.surprise is None:
            return False
        if isinstance(self.answer, ImageGrade):
            return self.surprise >= 1
        return self.surprise > (0.4 if self.answer.answer is PairAnswer.alike else 0.5)

    @property
    def contradicts_people(self) -> bool:
        """True if another person answered otherwise; skipped ones do not count."""
        opinion = _comparable(self.answer)
        others = map(_comparable, self.others)
        return opinion is not None and any(other is not None and other != opinion for other in others)


def decision_of(answer: Answer) -> str:
    """Return the answer about a pair, the grade of an image as text, or `CANNOT_JUDGE`."""
    if isinstance(answer, PairJudgement):
        return answer.answer.value
    return CANNOT_JUDGE if answer.grade is None else f"{answer.grade:g}"


def review_answers(
    entries: Iterable[Entry], plan: StudyPlan, model: TrainedModel | None
) -> list[ReviewedAnswer]:
    """Return the valid answers of a study, the newest first.

    Parameters
    ----------
    entries : iterable of Entry
        The whole journal.
    plan : StudyPlan
    model : TrainedModel, optional
        The latest one.
    """
    histories = _histories(entries)
    valid = [history[-1] for history in histories.values()]
    by_subject: dict[tuple[str, ...], list[Answer]] = {}
    for answer in valid:
        by_subject.setdefault(_subject(answer), []).append(answer)
    surprise = _Surprise(plan, model, valid)
    reviewed = [
        ReviewedAnswer(
            history[-1],
            tuple(history[:-1]),
            tuple(other for other in by_subject[subject] if other.who != who),
            surprise(history[-1]),
        )
        for (who, *_), history in histories.items()
        for subject in [_subject(history[-1])]
    ]
    return sorted(reviewed, key=lambda each: each.answer.at, reverse=True)


def filter_answers(
    answers: Sequence[ReviewedAnswer], who: str | None = None, decision: str | None = None,
    disagreement: Disagreement | None = None,
) -> list[ReviewedAnswer]:  # fmt: skip
    """Return some of `answers`, in their order; those that contradict the model with the greatest surprise first.

    Parameters
    ----------
    answers : sequence of ReviewedAnswer
    who : str, optional
        Only those of this person.
    decision : str, optional
        Only those with this `ReviewedAnswer.decision`.
    disagreement : "model" or "people", optional
        Only those that contradict the model, or other people.
    """
    selected = [
        each
        for each in answers
        if who in (None, each.answer.who)
        and decision in (None, each.decision)
        and (disagreement != "model" or each.contradicts_model)
        and (disagreement != "people" or each.contradicts_people)
    ]
    if disagreement == "model":
        selected.sort(key=lambda each: -(each.surprise or 0.0))
    return selected


def _subject(answer: Answer) -> tuple[str, ...]:
    """Return the images that `answer` is about."""
    return answer.pair if isinstance(answer, PairJudgement) else (answer.image,)


def _histories(entries: Iterable[Entry]) -> dict[tuple[str, ...], list[Answer]]:
    """Return the answers that were not withdrawn, in order, by person and images."""
    entries = list(entries)
    undone = {entry.undoes for entry in entries if isinstance(entry, Undo)}
    histories: dict[tuple[str, ...], list[Answer]] = {}
    for entry in entries:
        if not isinstance(entry, Undo) and entry.name not in undone:
            histories.setdefault((entry.who, *_subject(entry)), []).append(entry)
    return histories


def _comparable(answer: Answer) -> float | None:
    """Return a number that is the same for the same opinion, None for no opinion."""
    if isinstance(answer, ImageGrade):
        return answer.grade
    label = LABELS.get(answer.answer)
    return label if label is None or answer.first == answer.pair[0] else 1.0 - label


class _Surprise:
    """Distance of answers from a model."""

    def __init__(self, plan: StudyPlan, model: TrainedModel | None, answers: Sequence[Answer]) -> None:
        self._grades = plan.grades
        self._mean = dict(zip(model.ids, model.severity.mean.tolist(), strict=True)) if model else {}
        grades = [
            answer for answer in answers if isinstance(answer, ImageGrade) and answer.grade in plan.grades
        ]
        self._predicted = predict_grades(model, given_grades(grades))

    def __call__(self, answer: Answer) -> float | None:
        if isinstance(answer, ImageGrade):
            predicted = self._predicted.get(answer.image)
            if predicted not in self._grades or answer.grade not in self._grades:
                return None
            return float(abs(self._grades.index(predicted) - self._grades.index(answer.grade)))
        label = LABELS.get(answer.answer)
        if label is None or answer.first not in self._mean or answer.second not in self._mean:
            return None
        difference = self._mean[answer.first] - self._mean[answer.second]
        probability = 0.5 * (1.0 + math.tanh(difference / 2.0))  # the sigmoid of RankNet
        return abs(label - probability)
