"""Page for browsers while a database server does not answer; other clients get the problem."""

from flask import Blueprint, Response, make_response, render_template, request

from cbir.errors import CbirError, DatabaseUnavailable
from service.access.caller import logged_public_text
from service.http import problems
from service.state.errors import StateUnavailable

blueprint = Blueprint("error_pages", __name__)
API = "/v1/"


@blueprint.app_errorhandler(DatabaseUnavailable)
@blueprint.app_errorhandler(StateUnavailable)
def show_database_down(error: CbirError) -> Response:
    """Show a browser the page, with Retry-After, and return the problem to other clients."""
    problem = problems.error_response(error, logged_public_text(error))
    html = request.accept_mimetypes.best_match([problems.MEDIA_TYPE, "text/html"]) == "text/html"
    if not html or request.path.startswith(API):
        return problem
    try:
        page = make_response(render_template("database_down.html"), problem.status_code)
    except CbirError:  # the frame of the page needs the database too
        return problem
    page.headers["Retry-After"] = problem.headers["Retry-After"]
    page.vary.add("Accept")
    return page
