"""Errors as the client sees them: RFC 9457 problem details, whatever went wrong and wherever."""

import json
import logging
import traceback
from http import HTTPStatus

from flask import Flask, Response
from sqlalchemy.exc import DatabaseError
from werkzeug.exceptions import HTTPException

from cbir.errors import (
    CbirError,
    CollectionBusy,
    CollectionDamaged,
    InvalidInput,
    NotFound,
    StorageFull,
    UnreadableImage,
)
from service.problem_kinds import BY_STATUS, KINDS, address

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
UNEXPECTED = "the service met an error it did not expect; its log says where"

NOT_HTTP = "the request is not HTTP that the service understands"

log = logging.getLogger(__name__)


class NotReady(CbirError):
    """The collection cannot be opened at present."""


class TooManyRequests(CbirError):
    """More requests are under way than the settings allow."""


class SourceGone(CbirError):
    """The file an image was indexed from is not there any more, or shows something else."""


class Malformed(CbirError):
    """A request that cannot be read, whatever it asks for."""


class NotAllowed(CbirError):
    """What the settings do not allow."""


class Conflict(CbirError):
    """What cannot be done in the present state."""


class ChangedMeanwhile(CbirError):
    """The image is not as the client last saw it."""


KIND: dict[type[CbirError], str] = {
    InvalidInput: "invalid-input",
    UnreadableImage: "unreadable-image",
    NotFound: "not-found",
    SourceGone: "source-gone",
    TooManyRequests: "too-many-requests",
    CollectionBusy: "collection-busy",
    CollectionDamaged: "collection-damaged",
    NotReady: "not-ready",
    Malformed: "malformed",
    NotAllowed: "forbidden",
    Conflict: "conflict",
    ChangedMeanwhile: "changed-meanwhile",
    StorageFull: "storage-full",
}
TO_REPEAT = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
PASSED_ON = {"Allow", "Retry-After", "WWW-Authenticate"}

IN_OTHER_WORDS = {
    HTTPStatus.NOT_FOUND: "there is nothing at this address",
    HTTPStatus.METHOD_NOT_ALLOWED: "this address does not answer that method; Allow names those it does",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "the request is larger than the service takes (max_upload_bytes)",
}


def body(status: HTTPStatus, detail: str, kind: str | None = None) -> str:
    """The JSON of a problem. kind: one of `service.problem_kinds`; the status's own where it is not given."""
    name = kind or BY_STATUS.get(status)
    title = KINDS[name].title if name else status.phrase
    type_ = address(name) if name else "about:blank"
    return json.dumps({"type": type_, "title": title, "status": int(status), "detail": detail})


def problem(status: HTTPStatus, detail: str, kind: str | None = None) -> Response:
    """The response that tells a client of a problem, and when to come back where that helps."""
    response = Response(body(status, detail, kind), status, mimetype=MEDIA_TYPE)
    if status in TO_REPEAT:
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    return response


def install(app: Flask) -> None:
    """Answer every error of `app` with a problem."""
    app.register_error_handler(CbirError, _expected)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(DatabaseError, _database)
    app.register_error_handler(Exception, _unexpected)


def _kind(error: CbirError) -> str:
    return next((KIND[of] for of in type(error).__mro__ if of in KIND), "unexpected")


def status_of(error: CbirError) -> HTTPStatus:
    """The status that an error is answered with, for pages that say it in their own way."""
    return KINDS[_kind(error)].status


def _expected(error: CbirError) -> Response:
    kind = _kind(error)
    return problem(KINDS[kind].status, str(error), kind)


def _http(error: HTTPException) -> Response | HTTPException:
    if error.code is None or error.code < 400:
        return error
    status = HTTPStatus(error.code)
    by_default = error.description == type(error).description
    detail = IN_OTHER_WORDS.get(status) if by_default else None
    response = problem(status, detail or error.description or status.phrase)
    for name, value in error.get_headers():
        if name in PASSED_ON:
            response.headers[name] = value
    return response


def _database(error: DatabaseError) -> Response:
    log.error("the database cannot be read: %s", where(error))
    detail = "the collection's database cannot be read at the moment"
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, detail, "collection-damaged")


def is_not_http(error: Exception) -> bool:
    """Whether an error is gunicorn's, about a request or the pieces of its body."""
    return type(error).__module__ == "gunicorn.http.errors"


def _unexpected(error: Exception) -> Response:
    if is_not_http(error):
        return problem(HTTPStatus.BAD_REQUEST, NOT_HTTP)
    log.error("unexpected error: %s", where(error))
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, UNEXPECTED)


def where(error: BaseException) -> str:
    """Kind and places of an error without its text, which may quote a file name or what a DICOM header says."""
    places = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at " + " < ".join(
        f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(places)
    )
