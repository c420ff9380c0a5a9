"""Page for an address that does not exist, for browsers; other clients get the problem."""

from http import HTTPStatus

from flask import Blueprint, Response, make_response, render_template, request
from werkzeug.exceptions import HTTPException

from service.http import problems

blueprint = Blueprint("error_pages", __name__)


@blueprint.app_errorhandler(HTTPStatus.NOT_FOUND)
def show_not_found(error: HTTPException) -> Response | HTTPException:
    """Show a browser the page, and return the problem to other clients."""
    if request.accept_mimetypes.best_match([problems.MEDIA_TYPE, "text/html"]) != "text/html":
        return problems.http_error_response(error)
    page = make_response(render_template("not_found.html"), HTTPStatus.NOT_FOUND)
    page.vary.add("Accept")
    return page
