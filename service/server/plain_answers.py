"""Answers that the server gives itself, without the app."""

import logging
from http import HTTPStatus

from service.http.problems import (
    MEDIA_TYPE,
    NOT_HTTP,
    RETRY_SECONDS,
    RETRYABLE,
    UNEXPECTED,
    error_location,
    is_not_http,
    problem_json,
)

URI_TOO_LONG = HTTPStatus.REQUEST_URI_TOO_LONG, "the address is too long; send long parameters in the body"
HEADERS_TOO_LARGE = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long or too many"
UNSUPPORTED_CODING = (
    HTTPStatus.BAD_REQUEST,
    "bodies are sent with Content-Length or Transfer-Encoding: chunked",
)
ANSWERS = {
    "LimitRequestLine": URI_TOO_LONG,
    "LimitRequestHeaders": HEADERS_TOO_LARGE,
    "UnsupportedTransferCoding": UNSUPPORTED_CODING,
}

log = logging.getLogger(__name__)


def problem_answer(status: HTTPStatus, detail: str) -> bytes:
    """Return a whole HTTP response with a problem of `status` and `detail`; it closes the connection."""
    text = problem_json(status, detail).encode()
    retry = f"Retry-After: {RETRY_SECONDS}\r\n" if status in RETRYABLE else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n"
        f"Content-Length: {len(text)}\r\n{retry}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + text


def error_answer(error: BaseException) -> bytes:
    """Return the response to an error of gunicorn's parser, or to a defect, which is logged."""
    if isinstance(error, Exception) and is_not_http(error):
        return problem_answer(*ANSWERS.get(type(error).__name__, (HTTPStatus.BAD_REQUEST, NOT_HTTP)))
    log.error("unexpected error: %s", error_location(error))
    return problem_answer(HTTPStatus.INTERNAL_SERVER_ERROR, UNEXPECTED)
