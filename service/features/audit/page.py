"""Audit: what is wrong with the images and labels of a collection, and correcting labels."""

from http import HTTPStatus

from flask import Blueprint, render_template, request

from cbir.errors import NotFound
from cbir.system.access_rights import Scope
from service.collections.app_state import current_state
from service.http.problems import NotReady
from service.languages import mark
from service.pages.error_pages import unavailable_page
from service.pages.page_parts import MenuPage, label_filters_of

blueprint = Blueprint("audit_page", __name__)
MENU_PAGE = MenuPage("audit_page.show_audit", mark("Audit"), 60, scope=Scope.annotate)

DEFAULT_LABELS = ("label", "diagnosis", "anatomy")  # of which the first that images have is judged


@blueprint.get("/audit")
def show_audit() -> tuple[str, HTTPStatus]:
    """Show the audit of a collection, or the reason why it is unavailable."""
    state = current_state()
    names = state.visible_names()
    try:
        handle = state.handle(request.args.get("collection"))
        keys = list(label_filters_of(handle.searcher().collection))
    except (NotFound, NotReady) as error:
        return unavailable_page(error)
    page = render_template(
        "audit.html",
        collection=handle.name,
        collection_arg=handle.name if len(names) > 1 else None,
        collections=names,
        label_keys=keys,
        chosen=next((key for key in DEFAULT_LABELS if key in keys), None),
    )
    return page, HTTPStatus.OK
