"""Pages for browsers of a collection or server that is not available, and of an unknown address."""

from http import HTTPStatus

from flask import Blueprint, Response, make_response, render_template, request
from werkzeug.exceptions import HTTPException

from cbir.errors import CbirError, DatabaseUnavailable, NotFound
from service.access.caller import logged_public_text, public_text
from service.access.security import SAFE_METHODS
from service.collections.app_state import current_state
from service.http import problems
from service.http.problems import NotReady
from service.state.errors import StateUnavailable

blueprint = Blueprint("error_pages", __name__)
API = "/v1/"


def unavailable_page(error: NotFound | NotReady) -> tuple[str, HTTPStatus]:
    """Return the page that gives the reason, and its status."""
    missing = isinstance(error, NotFound)
    status = HTTPStatus.NOT_FOUND if missing else HTTPStatus.SERVICE_UNAVAILABLE
    names = current_state().visible_names()
    page = render_template("unavailable.html", reason=public_text(error), missing=missing, collections=names)
    return page, status


@blueprint.app_errorhandler(HTTPStatus.NOT_FOUND)
def show_not_found(error: HTTPException) -> Response | HTTPException:
    """Show a browser the page, and return the problem to other clients."""
    if not _prefers_html():
        return problems.http_error_response(error)
    page = make_response(render_template("not_found.html"), HTTPStatus.NOT_FOUND)
    page.vary.add("Accept")
    return page


@blueprint.app_errorhandler(HTTPStatus.FORBIDDEN)
def show_forbidden(error: HTTPException) -> Response | HTTPException:
    """Show a browser the page that says why a page is not allowed, and return the problem to other clients."""
    problem = problems.http_error_response(error)
    if not _prefers_html() or request.path.startswith(API) or request.method not in SAFE_METHODS:
        return problem
    try:
        page = make_response(
            render_template("forbidden.html", reason=error.description), HTTPStatus.FORBIDDEN
        )
    except CbirError:  # the frame of the page needs the database
        return problem
    page.vary.add("Accept")
    return page


def _prefers_html() -> bool:
    return request.accept_mimetypes.best_match([problems.MEDIA_TYPE, "text/html"]) == "text/html"


@blueprint.app_errorhandler(DatabaseUnavailable)
@blueprint.app_errorhandler(StateUnavailable)
def show_database_down(error: CbirError) -> Response:
    """Show a browser the page, with Retry-After, and return the problem to other clients."""
    problem = problems.error_response(error, logged_public_text(error))
    if not _prefers_html() or request.path.startswith(API):
        return problem
    try:
        page = make_response(render_template("database_down.html"), problem.status_code)
    except CbirError:  # the frame of the page needs the database too
        return problem
    page.headers["Retry-After"] = problem.headers["Retry-After"]
    page.vary.add("Accept")
    return page
