"""Gallery: all images of a collection, to browse, filter, label, delete and export."""

from http import HTTPStatus

from flask import Blueprint, render_template, request

from cbir.errors import NotFound
from cbir.system.access_rights import Scope
from service.access.caller import current_rights
from service.collections.app_state import current_state
from service.http.problems import NotReady
from service.pages.error_pages import unavailable_page

blueprint = Blueprint("gallery", __name__)


@blueprint.get("/gallery")
def show_gallery() -> tuple[str, HTTPStatus]:
    """Show the gallery of a collection, or the reason why it is unavailable."""
    state, rights = current_state(), current_rights()
    names = state.visible_names()
    try:
        handle = state.handle(request.args.get("collection"))
        collection = handle.searcher().collection
    except (NotFound, NotReady) as error:
        return unavailable_page(error)
    page = render_template(
        "gallery.html",
        collection=handle.name,
        collection_arg=handle.name if len(names) > 1 else None,
        collections=names,
        has_series=bool(collection.dicom_groups("study", None, 1)),
        can_label=rights is not None and rights.allows(Scope.annotate),
        can_delete=rights is not None and rights.allows(Scope.admin),
    )
    return page, HTTPStatus.OK
