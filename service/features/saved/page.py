"""Pages of saved cases and cohorts: their lists, a case with its teaching file, a cohort with images to judge."""

from collections import Counter
from functools import partial
from http import HTTPStatus

from flask import Blueprint, render_template, url_for

from cbir.errors import NotFound
from cbir.system.access_rights import Scope
from service.access.audit import log_images
from service.access.caller import actor_name, has_admin_rights
from service.access.scopes import AccessRule
from service.collections.app_state import current_state
from service.features.saved.cases.pdf_file import can_write_pdf
from service.features.saved.cases.routes import MAX_LABELS
from service.features.saved.cases.teaching_file import (
    DEFAULT_LABELS,
    chosen_answers,
    judgement_of,
    split_paragraphs,
)
from service.features.saved.cases.visible_cases import VisibleCase, find_visible_case
from service.features.saved.cohorts.visible_cohorts import find_visible_cohort
from service.features.saved.messages import MAX_NOTE, MAX_TITLE
from service.http.problems import NotReady
from service.languages import mark
from service.pages.error_pages import unavailable_page
from service.pages.page_parts import MenuPage

blueprint = Blueprint("saved_page", __name__)
CASES_PAGE = MenuPage("saved_page.show_cases", mark("Cases"), 40, of_collection=False)
COHORTS_PAGE = MenuPage("saved_page.show_cohorts", mark("Cohorts"), 50, of_collection=False)

RULES = {
    # Saved cases; the caller's own and shared ones.
    "GET /cases": AccessRule(Scope.search),
    "GET /cases/*": AccessRule(Scope.search, "case"),
    "GET /v1/cases": AccessRule(Scope.search, "cases"),
    "POST /v1/cases": AccessRule(Scope.search, "save-case"),
    "GET /v1/cases/*": AccessRule(Scope.search, "case"),
    "PATCH /v1/cases/*": AccessRule(Scope.search, "change-case"),
    "DELETE /v1/cases/*": AccessRule(Scope.search, "delete-case"),
    "GET /v1/cases/*/picture": AccessRule(Scope.search),  # not logged: a page shows dozens
    "GET /v1/cases/*/export": AccessRule(Scope.search, "export-case"),
    # Cohorts; the caller's own and shared ones.
    "GET /cohorts": AccessRule(Scope.search),
    "GET /cohorts/*": AccessRule(Scope.search),
    "GET /v1/cohorts": AccessRule(Scope.search, "cohorts"),
    "POST /v1/cohorts": AccessRule(Scope.search, "begin-cohort"),
    "GET /v1/cohorts/*": AccessRule(Scope.search, "cohort"),
    "PATCH /v1/cohorts/*": AccessRule(Scope.search, "change-cohort"),
    "DELETE /v1/cohorts/*": AccessRule(Scope.search, "delete-cohort"),
    "POST /v1/cohorts/*/batch": AccessRule(Scope.search, "search"),
    "POST /v1/cohorts/*/judgements": AccessRule(Scope.search, "judge-cohort"),
    "POST /v1/cohorts/*/undo": AccessRule(Scope.search, "judge-cohort"),
    "GET /v1/cohorts/*/estimate": AccessRule(Scope.search, "cohort"),
    "GET /v1/cohorts/*/export": AccessRule(Scope.search, "export-cohort"),
}


@blueprint.get("/cases")
def show_cases() -> tuple[str, HTTPStatus]:
    """Show the list of saved cases, which the page loads by the API."""
    several = len(current_state().visible_names()) > 1
    page = render_template("cases.html", several=several, is_admin=has_admin_rights())
    return page, HTTPStatus.OK


@blueprint.get("/cases/<case_id>")
def show_case(case_id: str) -> tuple[str, HTTPStatus]:
    """Show a case, and what its teaching file will have."""
    try:
        case = find_visible_case(case_id)
    except NotFound:
        return render_template("not_found.html"), HTTPStatus.NOT_FOUND
    except NotReady as error:
        return unavailable_page(error)
    log_images([case.row.query_image, *(answer.image_id for answer in case.content.answers)])
    page = render_template(
        "case.html",
        case=case.message(),
        paragraphs=split_paragraphs(case.row.note),
        label_keys=_label_keys(case),
        default_labels=DEFAULT_LABELS,
        max_labels=MAX_LABELS,
        first={answer.rank for answer in chosen_answers(case, None)},
        picture_of=partial(_picture, case),
        judged={image_id: judgement_of(case, image_id) for image_id in case.content.image_ids()},
        burned_in=sorted(image_id for image_id, record in case.records.items() if record.burned_in),
        query_labels=case.query_record.labels if case.query_record else {},
        query_picture=_query_picture(case),
        can_delete=case.row.owner == actor_name() or has_admin_rights(),
        has_pdf=can_write_pdf(),
        several=len(current_state().visible_names()) > 1,
        max_title=MAX_TITLE,
        max_note=MAX_NOTE,
    )
    return page, HTTPStatus.OK


def _query_picture(case: VisibleCase) -> str:
    """Return the address of the whole picture of the query."""
    if case.row.stored:
        return url_for("cases.get_case_picture", case_id=case.row.case_id)
    return _picture(case, case.row.query_image)


def _picture(case: VisibleCase, image_id: str) -> str:
    name = case.row.collection
    return url_for("pages.pictures.get_picture", image_id=image_id, collection=name)


def _label_keys(case: VisibleCase) -> list[str]:
    """Return the keys of the labels that the images of a case have, the most frequent first."""
    counts = Counter(key for record in case.records.values() for key in record.labels)
    return [key for key, _ in counts.most_common()]


@blueprint.get("/cohorts")
def show_cohorts() -> tuple[str, HTTPStatus]:
    """Show the list of cohorts, which the page loads by the API."""
    several = len(current_state().visible_names()) > 1
    page = render_template("cohorts.html", several=several, is_admin=has_admin_rights(), max_title=MAX_TITLE)
    return page, HTTPStatus.OK


@blueprint.get("/cohorts/<cohort_id>")
def show_cohort(cohort_id: str) -> tuple[str, HTTPStatus]:
    """Show a cohort; its owner judges the next images there."""
    try:
        cohort = find_visible_cohort(cohort_id)
    except NotFound:
        return render_template("not_found.html"), HTTPStatus.NOT_FOUND
    except NotReady as error:
        return unavailable_page(error)
    log_images(image.image_id for image in cohort.judged)
    page = render_template(
        "cohort.html",
        cohort=cohort.summary(),
        history="".join("1" if image.relevant else "0" for image in cohort.judged),
        can_delete=cohort.row.owner == actor_name() or has_admin_rights(),
        several=len(current_state().visible_names()) > 1,
        max_title=MAX_TITLE,
        max_note=MAX_NOTE,
    )
    return page, HTTPStatus.OK
