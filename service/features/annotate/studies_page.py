"""The page that lists the reader studies and annotation studies of a service."""

from flask import Blueprint, render_template, url_for

from cbir.system.access_rights import Scope
from service.access.caller import current_rights
from service.access.scopes import ANY_TOKEN
from service.features.annotate.annotation_pages import ANNOTATION_RULES, start_page
from service.features.annotate.annotation_studies import ListedStudy, current_studies
from service.features.annotate.reader_study import routes as reader_study
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
        annotation_studies=[(study, _address(study)) for study in current_studies().list_visible()],
        is_owner=reader_study.is_owner(),
    )


def _address(study: ListedStudy) -> str:
    return url_for(start_page(study.plan), study=study.name)
