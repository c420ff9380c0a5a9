"""Conditional requests: ETag, If-None-Match, If-Match (RFC 9110, section 13)."""

from flask import Response, request

from service.http.problems import ChangedMeanwhile


def client_has_current(response: Response) -> bool:
    """Return True if If-None-Match names the ETag of `response`, so that no body is needed."""
    return request.if_none_match.contains_weak(_etag(response))


def check_if_match(response: Response, resource: str) -> None:
    """Raise ChangedMeanwhile if If-Match does not match the ETag of `response`; `resource` names it in the error."""
    expected = request.if_match
    if expected and not expected.star_tag and not expected.contains_weak(_etag(response)):
        raise ChangedMeanwhile(f"{resource} does not match If-Match; get it again")


def make_conditional(response: Response, resource: str) -> Response:
    """Return `response`, or 304 if the client has it; raises ChangedMeanwhile as `check_if_match` does."""
    check_if_match(response, resource)
    response.make_conditional(request)
    return response


def _etag(response: Response) -> str:
    return response.get_etag()[0] or ""
