"""Pages of addresses that browsers cannot have: unknown, refused, unavailable, or moved to another address."""

from http import HTTPStatus

from flask import Blueprint, Flask, Response, current_app, make_response, redirect, render_template, request
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as AnyResponse

from cbir.errors import CbirError, DatabaseUnavailable, NotFound
from service.access.caller import logged_public_text, public_text
from service.access.scopes import rule_of_address
from service.access.security import SAFE_METHODS
from service.collections.app_state import current_state
from service.http import problems
from service.http.problems import NotReady
from service.state.schema import StateUnavailable

blueprint = Blueprint("error_pages", __name__)
API = "/v1/"
# New addresses of pages by the beginning of the old ones, of saved links; what follows it stays.
MOVED = {
    "/gallery": "/browse",
    "/map": "/browse",
    "/cases": "/saved/cases",
    "/cohorts": "/saved/cohorts",
    "/audit": "/quality",
    "/quarantine": "/quality#quarantine",
    "/study": "/studies",  # the list alone: a study is still below /study
}
LISTS = {"/saved/cases": "/saved", "/saved/cohorts": "/saved#cohorts"}  # pages that list what is below these


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


def install_moved(app: Flask) -> None:
    """Redirect from old addresses to those new ones that the app has pages for."""
    app.before_request(_redirect)


def new_address(path: str) -> str:
    """Return where the page of an old path is now; "" for a path that has not moved."""
    for old, new in MOVED.items():
        if path == old or path.startswith(f"{old}/"):
            moved = new + path.removeprefix(old)
            return LISTS.get(moved, moved)
    return ""


def _redirect() -> AnyResponse | None:
    path, mark, tab = (new_address(request.path) if request.method in SAFE_METHODS else "").partition("#")
    if not path or not _is_page(path):
        return None
    query = request.query_string.decode("latin-1")
    return redirect((f"{path}?{query}" if query else path) + mark + tab, 302)


def _is_page(path: str) -> bool:
    try:
        rule, _ = current_app.url_map.bind("localhost").match(path, "GET", return_rule=True)
    except HTTPException:
        return False
    return rule_of_address(current_app, "GET", rule.rule) is not None  # None: an app that leaves the page out
