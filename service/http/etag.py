"""Conditional requests: ETag, If-None-Match, If-Match (RFC 9110, section 13)."""

from collections.abc import Callable

from flask import Response, request

from service.http.problems import ChangedMeanwhile


def check_if_match(response: Response, resource: str) -> None:
    """Raise ChangedMeanwhile if If-Match does not match the ETag of `response`; `resource` names it in the error."""
    expected = request.if_match
    if expected and not expected.star_tag and not expected.contains_weak(response.get_etag()[0] or ""):
        raise ChangedMeanwhile(f"{resource} does not match If-Match; get it again")


def picture_response(etag: str, render: Callable[[Response], None]) -> Response:
    """Return a picture, or 304 if the client has it; raises ChangedMeanwhile as `check_if_match` does.

    `render` sets the data, and the media type if it is not PNG. A picture is revalidated each time, so that a deleted
    image disappears from the page too.
    """
    response = Response(mimetype="image/png")
    response.set_etag(etag)
    response.headers["Cache-Control"] = "private, no-cache"
    if not request.if_none_match.contains_weak(etag):
        render(response)
    return make_conditional(response, "the picture")


def make_conditional(response: Response, resource: str) -> Response:
    """Return `response`, or 304 if the client has it; raises ChangedMeanwhile as `check_if_match` does."""
    try:
        check_if_match(response, resource)
    except ChangedMeanwhile:
        response.close()
        raise
    response.make_conditional(request)
    return response
