"""Errors as RFC 9457 problem details; docs/errors.md and the page /docs/errors are generated from their kinds."""

import errno
import json
import logging
import os
import tomllib
import traceback
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cbir import errors
from cbir.errors import CbirError
from cbir.store import DatabaseError
from cbir.store.base.damage import is_full
from service.state.schema import StateUnavailable

if TYPE_CHECKING:
    from flask import Flask, Response
    from werkzeug.exceptions import HTTPException

PAGE = "/docs/errors"


class ProblemKind(NamedTuple):
    """Kind of problem. title: the same for all its problems. meaning, remedy: explanation for people."""

    status: HTTPStatus
    title: str
    meaning: str
    remedy: str


def _read_kinds() -> dict[str, ProblemKind]:
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {name: ProblemKind(**row | {"status": HTTPStatus(row["status"])}) for name, row in table.items()}


KINDS = _read_kinds()

# the first kind of a status represents it
BY_STATUS = {kind.status: name for name, kind in reversed(KINDS.items())}


def problem_type(name: str) -> str:
    """Return the `type` of problems of the kind `name`: the relative address of its explanation."""
    return f"{PAGE}#{name}"


def problem_kinds_markdown() -> str:
    """Return the text of docs/errors.md."""
    parts = [
        "# Errors\n",
        "Every error response is `application/problem+json` (RFC 9457): `type`, `title`, `status` and a `detail` "
        "that says what is wrong with this request. `type` is an address relative to the service that shows the "
        "text here. 429 and 503 come with `Retry-After` in seconds.\n",
    ]
    for name, kind in KINDS.items():
        parts.append(f"## {name}\n\n`{problem_type(name)}`, status {kind.status.value}: {kind.title}.\n")
        parts.append(f"{kind.meaning}\n\n{kind.remedy}\n")
    return "\n".join(parts)


MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
UNEXPECTED = "unexpected error; the log of the service says where"
NOT_HTTP = "the request is not valid HTTP"
OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
SPARE_FILES = 8  # SQLite opens several at a time, and other requests may have closed some meanwhile
NO_RESOURCES = (
    "the service cannot open more files, or has no free memory, at the moment; try again in a moment"
)
DISK_FULL = "a disk of the service is full, so this was not done; free some space and repeat the step"

log = logging.getLogger(__name__)


class NotReady(CbirError):
    """The collection cannot be opened at the moment."""


class NotAccessible(errors.AccessDenied, NotReady):
    """The collection cannot be opened, since the service has no right to one of its files."""


class TooManyRequests(CbirError):
    """The service or a caller is at a limit. retry_after: seconds until the request may be repeated."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SourceGone(CbirError):
    """The source file of an image is gone or shows another picture."""


class Malformed(CbirError):
    """The request cannot be parsed."""


class NotAllowed(CbirError):
    """The settings do not allow the request."""


class Conflict(CbirError):
    """The request conflicts with the current state."""


class ChangedMeanwhile(CbirError):
    """The image has changed since the client last read it."""


KIND_BY_ERROR: dict[type[CbirError], str] = {
    errors.InvalidInput: "invalid-input",
    errors.UnreadableImage: "unreadable-image",
    errors.NotFound: "not-found",
    SourceGone: "source-gone",
    TooManyRequests: "too-many-requests",
    errors.CollectionBusy: "collection-busy",
    errors.CollectionDamaged: "collection-damaged",
    errors.AccessDenied: "access-denied",
    NotReady: "not-ready",
    errors.DatabaseUnavailable: "database-unavailable",
    errors.IndexUnavailable: "index-unavailable",
    errors.DeviceFailed: "device-failed",
    StateUnavailable: "state-unavailable",
    Malformed: "malformed",
    NotAllowed: "forbidden",
    Conflict: "conflict",
    ChangedMeanwhile: "changed-meanwhile",
    errors.StorageFull: "storage-full",
    errors.QueryCancelled: "query-timeout",
}

RETRYABLE = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
FORWARDED_HEADERS = {"Allow", "Retry-After", "WWW-Authenticate"}
DEFAULT_DETAILS = {
    HTTPStatus.NOT_FOUND: "this address does not exist",
    HTTPStatus.METHOD_NOT_ALLOWED: "this address does not support the method; see the header Allow",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "the request is larger than the service accepts (max_upload_bytes)",
}


def problem_json(status: HTTPStatus, detail: str, kind: str | None = None) -> str:
    """Return the JSON of a problem.

    Parameters
    ----------
    status : HTTPStatus
        Status of the response.
    detail : str
        Message for this request.
    kind : str, optional
        Key of `KINDS`; the first kind of the status by default.
    """
    name = kind or BY_STATUS.get(status)
    title = KINDS[name].title if name else status.phrase
    type_ = problem_type(name) if name else "about:blank"
    return json.dumps({"type": type_, "title": title, "status": int(status), "detail": detail})


def problem_details(error: CbirError, detail: str) -> dict[str, Any]:
    """Return the problem details of `error` with the message `detail`."""
    kind = _kind(error)
    details: dict[str, Any] = json.loads(problem_json(KINDS[kind].status, detail, kind))
    return details


def problem_response(status: HTTPStatus, detail: str, kind: str | None = None) -> "Response":
    """Return a problem as a response, with Retry-After if the request may be repeated.

    Parameters
    ----------
    status : HTTPStatus
        Status of the response.
    detail : str
        Message for this request.
    kind : str, optional
        Key of `KINDS`; the first kind of the status by default.
    """
    from flask import Response  # of the extra serve, which commands that raise these errors do without

    response = Response(problem_json(status, detail, kind), status, mimetype=MEDIA_TYPE)
    if status in RETRYABLE:
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    return response


def install(app: "Flask") -> None:
    """Register error handlers that turn every error of `app` into a problem."""
    from werkzeug.exceptions import HTTPException

    app.register_error_handler(CbirError, _handle_cbir_error)
    app.register_error_handler(HTTPException, http_error_response)
    app.register_error_handler(DatabaseError, _handle_database_error)
    app.register_error_handler(Exception, _handle_unexpected_error)


def _kind(error: CbirError) -> str:
    return next((KIND_BY_ERROR[base] for base in type(error).__mro__ if base in KIND_BY_ERROR), "unexpected")


def status_of(error: CbirError) -> HTTPStatus:
    """Return the status of the response to `error`, for pages that render the error themselves."""
    return KINDS[_kind(error)].status


def _handle_cbir_error(error: CbirError) -> "Response":
    return error_response(error, str(error))


def error_response(error: CbirError, detail: str) -> "Response":
    """Return the response to `error` with the message `detail`."""
    kind = _kind(error)
    response = problem_response(KINDS[kind].status, detail, kind)
    if isinstance(error, TooManyRequests):
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def http_error_response(error: "HTTPException") -> "Response | HTTPException":
    """Return an HTTP error as a problem; a redirection as it is."""
    if error.code is None or error.code < 400:
        return error
    status = HTTPStatus(error.code)
    by_default = error.description == type(error).description
    detail = DEFAULT_DETAILS.get(status) if by_default else None
    response = problem_response(status, detail or error.description or status.phrase)
    for name, value in error.get_headers():
        if name in FORWARDED_HEADERS:
            response.headers[name] = value
    return response


def _handle_database_error(error: DatabaseError) -> "Response":
    if getattr(error.orig, "sqlite_errorname", None) == "SQLITE_CANTOPEN" and _is_out_of_files():
        return _no_resources(error)
    log.error("the database cannot be read: %s", error_location(error))
    detail = (
        "the collection's database cannot be read; if that stays, restart the service, which searches in the last "
        "good copy of a damaged collection and names what restores it"
    )
    return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, detail, "collection-damaged")


def is_not_http(error: Exception) -> bool:
    """Return True if `error` is gunicorn's, raised while it parsed a request or the chunks of its body."""
    return type(error).__module__ == "gunicorn.http.errors"


def _handle_unexpected_error(error: Exception) -> "Response":
    if is_not_http(error):
        return problem_response(HTTPStatus.BAD_REQUEST, NOT_HTTP)
    if isinstance(error, OSError) and error.errno in OUT_OF_RESOURCES:
        return _no_resources(error)
    if is_full(error):
        log.error("a disk is full: %s", error_location(error))
        return problem_response(HTTPStatus.INSUFFICIENT_STORAGE, DISK_FULL, "storage-full")
    log.error("unexpected error: %s", error_location(error))
    return problem_response(HTTPStatus.INTERNAL_SERVER_ERROR, UNEXPECTED)


def _no_resources(error: Exception) -> "Response":
    log.error("no more files can be opened, or no memory is left: %s", error_location(error))
    return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, NO_RESOURCES, "no-resources")


def _is_out_of_files() -> bool:
    """Return whether the process, or the machine, is so close to its limit of open files that SQLite may fail."""
    with ExitStack() as opened:
        try:
            for _ in range(SPARE_FILES):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            return error.errno in OUT_OF_RESOURCES
    return False


def error_location(error: BaseException) -> str:
    """Return type and traceback of `error` without its text, which may quote file names or DICOM headers."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at " + " < ".join(
        f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames)
    )
