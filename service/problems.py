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
    UnreadableImage,
)

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
UNEXPECTED = "the service met an error it did not expect; its log says where"

log = logging.getLogger(__name__)


class NotReady(CbirError):
    """The collection cannot be opened at present."""


class TooManyRequests(CbirError):
    """More requests are under way than the settings allow."""


class SourceGone(CbirError):
    """The file an image was indexed from is not there any more, or shows something else."""


STATUS: dict[type[CbirError], HTTPStatus] = {
    InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    UnreadableImage: HTTPStatus.UNPROCESSABLE_ENTITY,
    NotFound: HTTPStatus.NOT_FOUND,
    SourceGone: HTTPStatus.GONE,
    TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    CollectionBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    CollectionDamaged: HTTPStatus.SERVICE_UNAVAILABLE,
    NotReady: HTTPStatus.SERVICE_UNAVAILABLE,
}
TO_REPEAT = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}

IN_OTHER_WORDS = {
    HTTPStatus.NOT_FOUND: "there is nothing at this address",
    HTTPStatus.METHOD_NOT_ALLOWED: "this address does not answer that method; Allow names those it does",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "the request is larger than the service takes (max_upload_bytes)",
}


def body(status: HTTPStatus, detail: str) -> str:
    """The JSON of a problem; `about:blank` says that the title is the status's own."""
    title = "Unprocessable Content" if status == HTTPStatus.UNPROCESSABLE_ENTITY else status.phrase
    return json.dumps({"type": "about:blank", "title": title, "status": int(status), "detail": detail})


def problem(status: HTTPStatus, detail: str) -> Response:
    """The response that tells a client of a problem, and when to come back where that helps."""
    response = Response(body(status, detail), status, mimetype=MEDIA_TYPE)
    if status in TO_REPEAT:
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    return response


def install(app: Flask) -> None:
    """Answer every error of `app` with a problem."""
    app.register_error_handler(CbirError, _expected)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(DatabaseError, _database)
    app.register_error_handler(Exception, _unexpected)


def _expected(error: CbirError) -> Response:
    found = (STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return problem(next(found, HTTPStatus.INTERNAL_SERVER_ERROR), str(error))


def _http(error: HTTPException) -> Response | HTTPException:
    if error.code is None or error.code < 400:
        return error
    status = HTTPStatus(error.code)
    by_default = error.description == type(error).description
    detail = IN_OTHER_WORDS.get(status) if by_default else None
    response = problem(status, detail or error.description or status.phrase)
    for name, value in error.get_headers():
        if name == "Allow":
            response.headers[name] = value
    return response


def _database(error: DatabaseError) -> Response:
    log.error("the database cannot be read: %s", where(error))
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, "the collection's database cannot be read at the moment")


def _unexpected(error: Exception) -> Response:
    log.error("unexpected error: %s", where(error))
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, UNEXPECTED)


def where(error: BaseException) -> str:
    """Kind and places of an error without its text, which may quote a file name or what a DICOM header says."""
    places = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at " + " < ".join(
        f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(places)
    )
