"""Review of a study: answers with their history, agreement, files of results, and severity as a label."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from flask import Blueprint, Response

from cbir.learn.severity.stored_ranker import LABEL, write_severity
from cbir.store.base.stored_models import read_ranker_conditions
from service.access.audit import log_images
from service.access.caller import actor_name
from service.collections.app_state import current_state
from service.features.annotate import study_files
from service.features.annotate.active.annotator_agreement import annotator_agreement, grade_agreement
from service.features.annotate.active.judgement_journal import (
    LABELS,
    Entry,
    ImageGrade,
    PairAnswer,
    PairJudgement,
    not_undone,
)
from service.features.annotate.annotation_studies import current_annotation
from service.features.annotate.judging_api import logged_in_annotator
from service.features.annotate.messages import (
    AnswerInReview,
    AnswersInReview,
    DecisionCount,
    EarlierAnswer,
    ReviewParameters,
    StudyAgreement,
    StudyParameters,
    WrittenSeverity,
)
from service.features.annotate.study_files import TrainedModel
from service.features.annotate.study_plan import StudyPlan
from service.features.annotate.study_results import (
    ANSWER_COLUMNS,
    RESULT_COLUMNS,
    answer_rows,
    given_grades,
    predict_grades,
    result_rows,
    study_facts,
    study_results,
    table_csv,
)
from service.http import request_params
from service.http.operations import json_response, operation
from service.http.problems import Conflict

Answer = PairJudgement | ImageGrade
Disagreement = Literal["model", "people"]
CANNOT_JUDGE = "none"  # decision about a single image

blueprint = Blueprint("annotate_review", __name__)
MIRRORED = {PairAnswer.first.value: PairAnswer.second.value, PairAnswer.second.value: PairAnswer.first.value}
FILE_LINES = 'httpx.get(f"{server}/annotate/export/%s", headers=headers).text'


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
    histories: dict[tuple[str, ...], list[Answer]] = {}
    for entry in not_undone(entries):
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


@blueprint.get("/annotate/judgements")
@operation(
    "review",
    {200: AnswersInReview},
    query=ReviewParameters,
    problems=(422,),
    python='httpx.get(f"{server}/annotate/judgements", params={"disagreement": "people"}, headers=headers).json()',
)
def get_judgements() -> Response:
    """Return valid answers of all annotators, the newest first.

    To change an answer, send another one about the same; to withdraw it, undo it and its `earlier` ones. The journal
    keeps them all; the training uses the last.
    """
    params = request_params.query_parameters(ReviewParameters)
    study = current_annotation().study
    reviewed = review_answers(study.journal.entries, study.plan, study.model)
    selected = filter_answers(reviewed, params.judged_by, params.decision, params.disagreement)
    page = [_message(each) for each in selected[params.offset : params.offset + params.limit]]
    log_images(image for each in page for image in (each.first, each.second, each.image) if image)
    decisions = Counter(each.decision for each in reviewed)
    return json_response(
        AnswersInReview(
            who=logged_in_annotator(),
            total=len(selected),
            answers=page,
            people=sorted({each.answer.who for each in reviewed}),
            decisions=[
                DecisionCount(decision=key, answers=count) for key, count in sorted(decisions.items())
            ],
        )
    )


@blueprint.get("/annotate/agreement")
@operation(
    "agreement",
    {200: StudyAgreement},
    query=StudyParameters,
    python='httpx.get(f"{server}/annotate/agreement", headers=headers).json()',
)
def get_agreement() -> Response:
    """Return the agreement of the annotators on what several of them judged: of all, and of each two."""
    study = current_annotation().study
    agreements = {
        "judgements": annotator_agreement(study.judgements),
        "grades": grade_agreement(study.image_answers),
    }
    return json_response(StudyAgreement.model_validate({key: asdict(of) for key, of in agreements.items()}))


def _message(reviewed: ReviewedAnswer) -> AnswerInReview:
    answer = reviewed.answer
    return AnswerInReview(
        name=answer.name,
        kind="grade" if isinstance(answer, ImageGrade) else "pair",
        who=answer.who,
        at=answer.at.isoformat(),
        seconds=answer.seconds,
        **{name: getattr(answer, name, None) for name in ("first", "second", "image")},
        decision=reviewed.decision,
        contradicts_model=reviewed.contradicts_model,
        contradicts_people=reviewed.contradicts_people,
        earlier=[_earlier(each, answer) for each in reviewed.earlier],
        others=[_earlier(each, answer) for each in reviewed.others],
    )


def _earlier(each: Answer, reviewed: Answer) -> EarlierAnswer:
    decision = decision_of(each)
    if getattr(each, "first", None) != getattr(reviewed, "first", None):
        decision = MIRRORED.get(decision, decision)
    return EarlierAnswer(name=each.name, who=each.who, at=each.at.isoformat(), decision=decision)


@blueprint.get("/annotate/export/judgements.csv")
@operation(
    "export_judgements_csv", {200: "text/csv"}, query=StudyParameters, python=FILE_LINES % "judgements.csv"
)
def get_judgements_csv() -> Response:
    """Return all answers as csv, also replaced and withdrawn ones, with their state."""
    study = current_annotation().study
    rows = answer_rows(study.journal.entries, study.plan)
    return _file(table_csv(ANSWER_COLUMNS, rows), "text/csv", "judgements.csv")


@blueprint.get("/annotate/export/judgements.json")
@operation(
    "export_judgements_json",
    {200: "application/json"},
    query=StudyParameters,
    python=FILE_LINES % "judgements.json",
)
def get_judgements_json() -> Response:
    """Return all answers as JSON, with the question, the grades and the conditions of the study."""
    study = current_annotation().study
    facts = study_facts(study.plan)
    facts["judgements"] = answer_rows(study.journal.entries, study.plan)
    return _file(json.dumps(facts, indent=1), "application/json", "judgements.json")


@blueprint.get("/annotate/export/images.csv")
@operation("export_images", {200: "text/csv"}, query=StudyParameters, python=FILE_LINES % "images.csv")
def get_images_csv() -> Response:
    """Return score, uncertainty and grade of each image of the study as csv.

    `score` is the severity and `deviation` its standard deviation; both are empty before the first training. `grade`
    is predicted from the score, `given_grade` is the median of the grades that people gave.
    """
    study = current_annotation().study
    results = study_results(study.ids, study.plan, study.model, study.image_answers)
    text = table_csv(RESULT_COLUMNS, result_rows(results, study.plan))
    return _file(text, "text/csv", "images.csv")


def _file(text: str, media: str, name: str) -> Response:
    response = Response(text, mimetype=media)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@blueprint.post("/annotate/severity")
@operation(
    "write_severity",
    {200: WrittenSeverity},
    query=StudyParameters,
    problems=(409, 507),
    python='httpx.post(f"{server}/annotate/severity", json={}, headers=headers).json()',
    confirm="Write the severity of all images to the collection?",
)
def post_severity() -> Response:
    """Label every image that the ranker has seen with its severity, as of the latest training."""
    annotation = current_annotation()
    model = annotation.study.model
    if model is None:
        raise Conflict(
            "there is no trained ranker yet; training starts once a round is complete, or after some grades"
        )
    collection = current_state().searcher(annotation.collection).collection
    study_files.copy_ranker_to_collection(model, collection)
    changed = write_severity(collection, model.ids, model.severity.mean, who=actor_name())
    where = list(read_ranker_conditions(model.folder))  # the study may have others since
    written = WrittenSeverity(
        label=LABEL, images=len(model.ids), changed=changed, after=model.after, where=where
    )
    return json_response(written)
