"""Quarantine: images that the intake check keeps out, to release or refuse."""

from http import HTTPStatus

from flask import Blueprint, render_template, request

from cbir.errors import NotFound
from service.collections.app_state import current_state
from service.http.problems import NotReady
from service.languages import mark
from service.pages.error_pages import unavailable_page
from service.pages.page_parts import MenuPage

blueprint = Blueprint("quarantine_page", __name__)
MENU_PAGE = MenuPage("quarantine_page.render_quarantine", mark("Quarantine"), 80, of_administration=True)


@blueprint.get("/quarantine")
def render_quarantine() -> tuple[str, HTTPStatus]:
    """Show the quarantine of a collection, or the reason why it is unavailable."""
    state = current_state()
    names = state.visible_names()
    try:
        handle = state.handle(request.args.get("collection"))
    except (NotFound, NotReady) as error:
        return unavailable_page(error)
    page = render_template(
        "quarantine.html",
        collection=handle.name,
        collection_arg=handle.name if len(names) > 1 else None,
    )
    return page, HTTPStatus.OK
