"""The page that lists the reader studies and annotation studies of a service."""

from flask import Blueprint, render_template, url_for

from cbir.system.access_rights import Scope
from service.access.caller import current_rights, logged_public_text
from service.access.scopes import ANY_TOKEN
from service.features.annotate.annotation_pages import ANNOTATION_RULES, start_page
from service.features.annotate.annotation_studies import ListedStudy, current_studies
from service.features.annotate.reader_study import routes as reader_study
from service.http.problems import NotReady
from service.languages import mark
from service.pages.page_parts import MenuPage

blueprint = Blueprint("studies", __name__)
MENU_PAGE = MenuPage("studies.show_studies", mark("Studies"), 60, of_collection=False)
RULES = reader_study.RULES | ANNOTATION_RULES | {"GET /studies": ANY_TOKEN}


@blueprint.get("/studies")
def show_studies() -> str:
    """List the studies that the caller may open."""
    rights = current_rights()
    return render_template(
        "studies.html",
        reader_studies=reader_study.list_visible() if rights and rights.allows(Scope.search) else [],
        annotation_studies=_annotation_studies() if rights and rights.allows(Scope.annotate) else [],
        is_owner=reader_study.is_owner(),
    )


def _annotation_studies() -> list[tuple[ListedStudy, str]] | None:
    """Return the annotation studies that the caller may open, with their addresses; None if their folder is away."""
    try:
        return [(study, _address(study)) for study in current_studies().list_visible()]
    except NotReady as error:
        logged_public_text(error)
        return None


def _address(study: ListedStudy) -> str:
    return url_for(start_page(study.plan), study=study.name)
