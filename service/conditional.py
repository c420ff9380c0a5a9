"""What clients have already, or think that they have: If-None-Match and If-Match (RFC 9110, section 13)."""

from flask import Response, request

from service.problems import ChangedMeanwhile


def client_has(response: Response) -> bool:
    """Whether the client holds what the response's ETag names, so that a body need not be made."""
    return request.if_none_match.contains_weak(_tag(response))


def check_expected(response: Response, what: str) -> None:
    """Raise ChangedMeanwhile where the client says by If-Match that it means another state than there is."""
    wanted = request.if_match
    if wanted and not wanted.star_tag and not wanted.contains_weak(_tag(response)):
        raise ChangedMeanwhile(f"{what} is not as If-Match says: get it again")


def finish(response: Response, what: str) -> Response:
    """The response, or 304 in its place; raises ChangedMeanwhile."""
    check_expected(response, what)
    response.make_conditional(request)
    return response


def _tag(response: Response) -> str:
    return response.get_etag()[0] or ""
