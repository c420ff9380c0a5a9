"""Pages of reader studies: for readers, blinded, and the results for their owner."""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from flask import Blueprint, Response, render_template
from pydantic import BaseModel, ConfigDict, Field
from werkzeug.exceptions import NotFound as PageNotFound

from cbir.errors import InvalidInput, NotFound
from cbir.system.access_rights import Scope
from cbir.system.files import csv_text
from service.access.audit import log_images
from service.access.caller import current_caller, current_rights
from service.access.scopes import AccessRule
from service.collections.app_state import current_state
from service.features.annotate.reader_study import tables as reader_studies
from service.features.annotate.reader_study.reader_results import reader_answer_rows, reader_study_results
from service.features.annotate.reader_study.tables import ReaderAnswer, ReaderStudy, StudyItem
from service.http.operations import json_response
from service.http.request_params import json_body
from service.languages import use_english
from service.state.database import state_database

MAX_NOTE = 2000
MAX_SECONDS = 24 * 3600.0
Useful = Annotated[int, Field(ge=1, le=5)]
Side = Literal["left", "equal", "right"]
SIDES = {-1: "left", 0: "equal", 1: "right"}  # by the preference of a reader with method a at the left

blueprint = Blueprint("reader_study", __name__, url_prefix="/study")

RULES = {
    "GET /study/*": AccessRule(Scope.search),
    "POST /study/*/items": AccessRule(Scope.search, "study"),
    "POST /study/*/answers": AccessRule(Scope.search, "study-answer"),
    "GET /study/*/results": AccessRule(Scope.admin, "study-results"),
    "GET /study/*/answers.csv": AccessRule(Scope.admin, "study-results"),
}


class ReaderStart(BaseModel):
    """A reader opens the study; `reader` is needed where people do not log in."""

    model_config = ConfigDict(extra="forbid")

    reader: Annotated[int | None, Field(ge=1)] = None


class SidedAnswer(ReaderStart):
    """Answer to an item, as the reader sees it."""

    item: Annotated[int, Field(ge=1)]
    useful_left: Useful
    useful_right: Useful
    better: Side
    relevant: Annotated[dict[Annotated[str, Field(max_length=64)], bool], Field(max_length=100)] = {}
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""
    seconds: Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)] = 0.0


class SidedItem(BaseModel):
    """Item of a study in the order of its reader; image ids are "-" where a patient was erased."""

    item: int
    query: str
    left: list[str]
    right: list[str]
    answer: SidedAnswer | None


class ReaderItems(BaseModel):
    """A study as one reader sees it."""

    reader: int
    collection: str
    judge_images: bool
    items: list[SidedItem]


def reader_schedule(seed: int, reader: int, count: int) -> list[tuple[int, bool]]:
    """Return the positions of the items in the order of a reader, and whether method a is at the left.

    Order and sides are random, and each method is at the left in half of the items, or one more. Same arguments, same
    schedule, so that a reader can go on after a break.

    Parameters
    ----------
    seed : int
        Of the study.
    reader : int
        Number of the reader, from 1.
    count : int
        Number of items.
    """
    generator = np.random.default_rng([seed, reader])
    order = generator.permutation(count).tolist()
    first = int(generator.integers(2))  # which method has one more of an odd number
    sides = generator.permutation(np.arange(first, first + count) % 2 == 0).tolist()
    return list(zip(order, sides, strict=True))


def reader_items(
    study: ReaderStudy, reader: int, items: Sequence[StudyItem], answers: Sequence[ReaderAnswer]
) -> ReaderItems:
    """Return the study for a reader: items in the reader's order, sides alone, never which method is where.

    Parameters
    ----------
    study : ReaderStudy
    reader : int
        Number of the reader, from 1.
    items : sequence of StudyItem
        All items.
    answers : sequence of ReaderAnswer
        Those of the reader.
    """
    by_item = {answer.item: answer for answer in answers}
    sided = []
    for each, a_left in _scheduled(study, reader, items):
        left, right = (each.a, each.b) if a_left else (each.b, each.a)
        answer = by_item.get(each.item)
        sided.append(
            SidedItem(
                item=each.item, query=each.query, left=list(left), right=list(right),
                answer=_to_sides(answer) if answer else None,
            )
        )  # fmt: skip
    return ReaderItems(
        reader=reader, collection=study.collection, judge_images=study.judge_images, items=sided
    )


def _scheduled(study: ReaderStudy, reader: int, items: Sequence[StudyItem]) -> list[tuple[StudyItem, bool]]:
    """Return the items in the reader's order, and whether method a is at the left.

    Items are numbered from 1 to the size of the study; those of erased patients are missing.
    """
    by_number = {each.item: each for each in items}
    schedule = reader_schedule(study.seed, reader, study.size)
    return [(by_number[row + 1], a_left) for row, a_left in schedule if row + 1 in by_number]


def _to_sides(answer: ReaderAnswer) -> SidedAnswer:
    left, right = answer.useful_a, answer.useful_b
    sign = 1 if answer.a_left else -1
    return SidedAnswer.model_validate(
        {
            "item": answer.item,
            "useful_left": left if answer.a_left else right,
            "useful_right": right if answer.a_left else left,
            "better": SIDES[sign * answer.preference],
            "relevant": answer.relevant,
            "note": answer.note,
            "seconds": answer.seconds,
        }
    )


def from_sides(
    study: ReaderStudy, reader: int, items: Sequence[StudyItem], sided: SidedAnswer
) -> ReaderAnswer | None:
    """Return an answer by methods; None if the study has no such item.

    Parameters
    ----------
    study : ReaderStudy
    reader : int
        Number of the reader, from 1.
    items : sequence of StudyItem
        All items.
    sided : SidedAnswer
        Judgements of images that are in neither list are dropped.
    """
    for each, a_left in _scheduled(study, reader, items):
        if each.item == sided.item:
            images = {*each.a, *each.b}
            useful = (sided.useful_left, sided.useful_right)
            preference = {side: value for value, side in SIDES.items()}[sided.better]
            return ReaderAnswer(
                reader, each.item, useful[not a_left], useful[a_left], preference if a_left else -preference, a_left,
                {image: value for image, value in sided.relevant.items() if image in images and study.judge_images},
                sided.note, sided.seconds,
            )  # fmt: skip
    return None


def is_owner() -> bool:
    """Return whether the caller may see the results of reader studies."""
    rights = current_rights()
    return rights is not None and rights.allows(Scope.admin)


def _may_read(study: ReaderStudy) -> bool:
    """Return True if the caller may see all images of the study."""
    rights = current_rights()
    return rights is not None and not rights.where and study.collection in current_state().visible_names()


def _study(name: str) -> ReaderStudy:
    """Return a study that the caller may see; raises NotFound."""
    study = reader_studies.find_study(state_database(), name)
    if not _may_read(study):
        raise reader_studies.no_study(name)
    return study


def _shown_study(name: str) -> ReaderStudy:
    """Return a study for a page; without it, a browser gets the page for missing addresses."""
    try:
        return _study(name)
    except NotFound as error:
        raise PageNotFound(str(error)) from error


def _reader(study: ReaderStudy, number: int | None) -> int:
    """Return the number of the reader who sends the request: by the login, or without one as the reader says."""
    caller = current_caller()
    if caller is not None:
        who = hashlib.blake2b(caller.actor.encode(), key=study.secret, digest_size=16).hexdigest()
        return reader_studies.claim_reader(state_database(), study, who)
    if number is None or not 1 <= number <= study.readers:
        raise InvalidInput(f"reader: a number from 1 to {study.readers}")
    return number


def list_visible() -> list[tuple[ReaderStudy, int, int]]:
    """Return the studies that the caller may see, each with its numbers of items and of answers, the newest first."""
    return [row for row in reader_studies.list_studies(state_database()) if _may_read(row[0])]


@blueprint.get("/<name>")
def show_study(name: str) -> str:
    """Show the page on which a reader judges."""
    study = _shown_study(name)
    numbers = list(range(1, study.readers + 1)) if current_caller() is None else []
    return render_template("study.html", study=study, numbers=numbers, is_owner=is_owner(), max_note=MAX_NOTE)


@blueprint.post("/<name>/items")
def post_start(name: str) -> Response:
    """Return the items and the reader's own answers; the first call of a reader takes one of the study's places."""
    study = _study(name)
    reader = _reader(study, json_body(ReaderStart).reader)
    database = state_database()
    items = reader_items(
        study,
        reader,
        reader_studies.read_items(database, name),
        reader_studies.read_answers(database, name, reader),
    )
    log_images(item.query for item in items.items)
    return json_response(items)


@blueprint.post("/<name>/answers")
def post_answer(name: str) -> tuple[str, int]:
    """Store the answer of a reader to an item, in place of an earlier one."""
    study = _study(name)
    sided = json_body(SidedAnswer)
    database = state_database()
    reader = _reader(study, sided.reader)
    answer = from_sides(study, reader, reader_studies.read_items(database, name), sided)
    if answer is None:
        raise NotFound(f"the study {name} has no item {sided.item}")
    reader_studies.set_answer(database, name, answer)
    return "", 204


@blueprint.get("/<name>/results")
def show_study_results(name: str) -> str:
    """Show the results to the owner of the service."""
    use_english()
    study = _shown_study(name)
    database = state_database()
    results = reader_study_results(
        study, reader_studies.read_items(database, name), reader_studies.read_answers(database, name)
    )
    return render_template("study_results.html", study=study, results=results)


@blueprint.get("/<name>/answers.csv")
def get_answers(name: str) -> Response:
    """Download the answers of all readers, by methods."""
    study = _study(name)
    headers = {"Content-Disposition": f'attachment; filename="{study.name}.csv"'}
    return Response(
        csv_text(reader_answer_rows(state_database(), study)), mimetype="text/csv", headers=headers
    )
