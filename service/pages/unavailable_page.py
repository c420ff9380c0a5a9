"""Page of a collection that cannot be shown."""

from http import HTTPStatus

from flask import render_template

from cbir.errors import NotFound
from service.access.caller import public_text
from service.collections.app_state import current_state
from service.http.problems import NotReady


def unavailable_page(error: NotFound | NotReady) -> tuple[str, HTTPStatus]:
    """Return the page that gives the reason, and its status."""
    missing = isinstance(error, NotFound)
    status = HTTPStatus.NOT_FOUND if missing else HTTPStatus.SERVICE_UNAVAILABLE
    names = current_state().visible_names()
    page = render_template("unavailable.html", reason=public_text(error), missing=missing, collections=names)
    return page, status
