"""Map: all images of a collection in two dimensions."""

from http import HTTPStatus

from flask import Blueprint, render_template, request

from cbir.errors import NotFound
from service.collections.app_state import current_state
from service.http.problems import NotReady
from service.languages import mark
from service.pages.error_pages import unavailable_page
from service.pages.page_parts import MenuPage, label_filters_of

blueprint = Blueprint("map_page", __name__)
MENU_PAGE = MenuPage("map_page.show_map", mark("Map"), 30)


@blueprint.get("/map")
def show_map() -> tuple[str, HTTPStatus]:
    """Show the map of a collection, or the reason why it is unavailable."""
    state = current_state()
    names = state.visible_names()
    try:
        handle = state.handle(request.args.get("collection"))
        collection = handle.searcher().collection
    except (NotFound, NotReady) as error:
        return unavailable_page(error)
    page = render_template(
        "map.html",
        collection=handle.name,
        collection_arg=handle.name if len(names) > 1 else None,
        collections=names,
        label_keys=list(label_filters_of(collection)),
    )
    return page, HTTPStatus.OK
