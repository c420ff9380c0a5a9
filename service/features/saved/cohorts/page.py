"""Pages of cohorts: their list, and one cohort with the images to judge next."""

from http import HTTPStatus

from flask import Blueprint, render_template

from cbir.errors import NotFound
from service.access.audit import log_images
from service.access.caller import actor_name, has_admin_rights
from service.collections.app_state import current_state
from service.features.saved.cases.messages import MAX_NOTE, MAX_TITLE
from service.features.saved.cohorts.visible_cohorts import find_visible_cohort
from service.http.problems import NotReady
from service.languages import mark
from service.pages.error_pages import unavailable_page
from service.pages.page_parts import MenuPage

blueprint = Blueprint("cohorts_page", __name__)
MENU_PAGE = MenuPage("cohorts_page.show_cohorts", mark("Cohorts"), 50, of_collection=False)


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
