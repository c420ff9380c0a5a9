"""Pages of reader studies: for readers, blinded, and the results for their owner."""

import csv
import hashlib
import io

from flask import Blueprint, Response, render_template
from werkzeug.exceptions import NotFound as PageNotFound

from cbir.errors import InvalidInput, NotFound
from cbir.system.access_rights import Scope
from service.access.audit import log_images
from service.access.caller import current_caller, current_rights
from service.collections.app_state import current_state
from service.features.annotate.reader_study import tables as reader_studies
from service.features.annotate.reader_study.reader_results import reader_answer_rows, reader_study_results
from service.features.annotate.reader_study.reader_view import (
    MAX_NOTE,
    ReaderStart,
    SidedAnswer,
    from_sides,
    reader_items,
)
from service.features.annotate.reader_study.tables import ReaderStudy
from service.http.operations import json_response
from service.http.request_params import json_body, require_json
from service.languages import mark
from service.pages.page_parts import MenuPage
from service.state.database import state_database

blueprint = Blueprint("reader_study", __name__, url_prefix="/study")
MENU_PAGE = MenuPage("reader_study.show_studies", mark("Reader studies"), 70, of_administration=True)


def _is_owner() -> bool:
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


@blueprint.get("")
def show_studies() -> str:
    """List the studies that the caller may see."""
    listed = [row for row in reader_studies.list_studies(state_database()) if _may_read(row[0])]
    return render_template("study_list.html", studies=listed, is_owner=_is_owner())


@blueprint.get("/<name>")
def show_study(name: str) -> str:
    """Show the page on which a reader judges."""
    study = _shown_study(name)
    numbers = list(range(1, study.readers + 1)) if current_caller() is None else []
    return render_template(
        "study.html", study=study, numbers=numbers, is_owner=_is_owner(), max_note=MAX_NOTE
    )


@blueprint.post("/<name>/items")
def post_start(name: str) -> Response:
    """Return the items and the reader's own answers; the first call of a reader takes one of the study's places."""
    study = _study(name)
    require_json()
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
    require_json()
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
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(reader_answer_rows(state_database(), study))
    headers = {"Content-Disposition": f'attachment; filename="{study.name}.csv"'}
    return Response(file.getvalue(), mimetype="text/csv", headers=headers)
