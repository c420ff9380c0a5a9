"""Pages of saved cases and cohorts: their list, a case with its teaching file, a cohort with images to judge."""

from collections import Counter
from http import HTTPStatus
from typing import Any

from flask import Blueprint, render_template

from cbir.errors import NotFound
from cbir.system.access_rights import Scope
from service.access.audit import log_images
from service.access.caller import has_admin_rights
from service.access.scopes import AccessRule
from service.collections.app_state import current_state
from service.features.saved.cases.pdf_file import can_write_pdf
from service.features.saved.cases.routes import MAX_LABELS
from service.features.saved.cases.teaching_file import DEFAULT_LABELS, chosen_answers
from service.features.saved.cases.visible_cases import VisibleCase, find_visible_case
from service.features.saved.cohorts.visible_cohorts import find_visible_cohort
from service.features.saved.messages import MAX_NOTE, MAX_TITLE
from service.http.problems import NotReady
from service.http.responses import LabelBudget
from service.languages import gettext, mark
from service.pages.error_pages import unavailable_page
from service.pages.page_parts import MenuPage
from service.routes.image_routes import add_record_cards, image_record

blueprint = Blueprint("saved_page", __name__)
MENU_PAGE = MenuPage("saved_page.show_saved", mark("Saved"), 40, of_collection=False, in_bar=True)

RULES = {
    # Saved cases; the caller's own and shared ones.
    "GET /saved": AccessRule(Scope.search),
    "GET /saved/cases/*": AccessRule(Scope.search, "case"),
    "GET /v1/cases": AccessRule(Scope.search, "cases"),
    "POST /v1/cases": AccessRule(Scope.search, "save-case"),
    "GET /v1/cases/*": AccessRule(Scope.search, "case"),
    "PATCH /v1/cases/*": AccessRule(Scope.search, "change-case"),
    "DELETE /v1/cases/*": AccessRule(Scope.search, "delete-case"),
    "GET /v1/cases/*/picture": AccessRule(Scope.search),  # not logged: a page shows dozens
    "GET /v1/cases/*/export": AccessRule(Scope.search, "export-case"),
    # Cohorts; the caller's own and shared ones.
    "GET /saved/cohorts/*": AccessRule(Scope.search),
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


@blueprint.get("/saved")
def show_saved() -> str:
    """Show the list of cases and cohorts, which the page loads by the API."""
    return _page("list", gettext("Saved"))


@blueprint.get("/saved/cases/<case_id>")
def show_case(case_id: str) -> str | tuple[str, HTTPStatus]:
    """Show a case, and what its teaching file will have."""
    try:
        case = find_visible_case(case_id)
    except NotFound:
        return render_template("not_found.html"), HTTPStatus.NOT_FOUND
    except NotReady as error:
        return unavailable_page(error)
    log_images([case.row.query_image, *(answer.image_id for answer in case.content.answers)])
    return _page(
        "case",
        case.row.title,
        _in_links(case.row.collection),
        case=case.message().model_dump(mode="json"),
        images=_images(case),
        label_keys=_label_keys(case),
        default_labels=DEFAULT_LABELS,
        max_labels=MAX_LABELS,
        first=[answer.rank for answer in chosen_answers(case, None)],
        has_pdf=can_write_pdf(),
    )


def _images(case: VisibleCase) -> dict[str, Any]:
    """Return the records of the images of a case, with cards, by image id."""
    collection, name = current_state().searcher(case.row.collection).collection, case.row.collection
    records = [image_record(collection, record, name) for record in case.records.values()]
    LabelBudget().leave_out(records)
    add_record_cards(collection, records)
    return {record.image_id: record.model_dump(mode="json") for record in records}


def _label_keys(case: VisibleCase) -> list[str]:
    """Return the keys of the labels that the images of a case have, the most frequent first."""
    counts = Counter(key for record in case.records.values() for key in record.labels)
    return [key for key, _ in counts.most_common()]


@blueprint.get("/saved/cohorts/<cohort_id>")
def show_cohort(cohort_id: str) -> str | tuple[str, HTTPStatus]:
    """Show a cohort; its owner judges the next images there."""
    try:
        cohort = find_visible_cohort(cohort_id)
    except NotFound:
        return render_template("not_found.html"), HTTPStatus.NOT_FOUND
    except NotReady as error:
        return unavailable_page(error)
    log_images(image.image_id for image in cohort.judged)
    return _page(
        "cohort",
        cohort.row.title,
        _in_links(cohort.row.collection),
        cohort=cohort.summary().model_dump(mode="json"),
        history="".join("1" if image.relevant else "0" for image in cohort.judged),
    )


def _in_links(collection: str) -> str:
    """Return the name of a collection as links have it: "" for the only one."""
    return collection if len(current_state().visible_names()) > 1 else ""


def _page(page: str, title: str, collection: str = "", **facts: Any) -> str:
    """Return a page, with the facts that its script needs."""
    several = len(current_state().visible_names()) > 1
    common = {"several": several, "is_admin": has_admin_rights(), "collection": collection}
    limits = {"max_title": MAX_TITLE, "max_note": MAX_NOTE}
    return render_template("saved.html", page=page, title=title, facts=common | limits | facts)
