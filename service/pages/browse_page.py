"""Browse: all images of a collection, to filter, look at, label, delete and export."""

from flask import Blueprint

from cbir.system.access_rights import Scope
from service.access.caller import current_rights
from service.collections.app_state import current_state
from service.pages.collection_page import ShownCollection, collection_page
from service.pages.page_parts import facts_of_features

blueprint = Blueprint("browse", __name__)


@blueprint.get("/browse")
@collection_page
def show_browse(current: ShownCollection) -> str:
    """Show the images of a collection."""
    rights, searcher = current_rights(), current.searcher
    facts = {
        "collection": current.handle.name,
        "several": len(current.names) > 1,
        "can_label": rights is not None and rights.allows(Scope.annotate),
        "can_delete": rights is not None and rights.allows(Scope.admin),
        "parts": facts_of_features("browse", searcher, current_state().settings),
    }
    has_series = bool(searcher.collection.dicom_groups("study", None, 1))
    return current.render("browse.html", has_series=has_series, facts=facts)
