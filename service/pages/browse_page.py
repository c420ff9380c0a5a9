"""Browse: all images of a collection, to filter, look at, label, delete and export."""

from http import HTTPStatus

from flask import Blueprint, render_template, request

from cbir.errors import NotFound
from cbir.system.access_rights import Scope
from service.access.caller import current_rights
from service.collections.app_state import current_state
from service.http.problems import NotReady
from service.pages.error_pages import unavailable_page
from service.pages.page_parts import facts_of_features

blueprint = Blueprint("browse", __name__)


@blueprint.get("/browse")
def show_browse() -> tuple[str, HTTPStatus]:
    """Show the images of a collection, or the reason why it is unavailable."""
    state, rights = current_state(), current_rights()
    names = state.visible_names()
    try:
        handle = state.handle(request.args.get("collection"))
        searcher = handle.searcher()
    except (NotFound, NotReady) as error:
        return unavailable_page(error)
    facts = {
        "collection": handle.name,
        "several": len(names) > 1,
        "can_label": rights is not None and rights.allows(Scope.annotate),
        "can_delete": rights is not None and rights.allows(Scope.admin),
        "parts": facts_of_features("browse", searcher, state.settings),
    }
    page = render_template(
        "browse.html",
        collection=handle.name,
        collections=names,
        collection_arg=handle.name if len(names) > 1 else None,
        has_series=bool(searcher.collection.dicom_groups("study", None, 1)),
        facts=facts,
    )
    return page, HTTPStatus.OK
