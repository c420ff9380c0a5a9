"""Error messages without the server's paths and processes, for callers without the scope admin."""

import logging

from flask import Flask, Response

from cbir.errors import CbirError, CollectionBusy, CollectionDamaged, DatabaseUnavailable, StorageFull
from service.access.caller import has_admin_rights
from service.http.problems import NotReady, error_response
from service.state.errors import StateUnavailable

PUBLIC_DETAILS: dict[type[CbirError], str] = {
    StorageFull: "the disk of the collection is full; nothing is damaged, and searching continues",
    CollectionBusy: "another request, job or process is writing to the collection; try again later",
    CollectionDamaged: "the collection's files are damaged; the log of the service says which",
    DatabaseUnavailable: "the database of the collection does not answer at the moment; the log says why",
    StateUnavailable: "the state of the service cannot be used at the moment; the log of the service says why",
    NotReady: "the collection cannot be opened at the moment; the log of the service says why",
}

log = logging.getLogger(__name__)


def install(app: Flask) -> None:
    """Replace the details of errors that name paths or processes in the responses of `app`."""
    for error_type in PUBLIC_DETAILS:
        app.register_error_handler(error_type, _handle)


def public_text(error: CbirError) -> str:
    """Return the message of `error` that the caller of the current request may see."""
    public = next((PUBLIC_DETAILS[base] for base in type(error).__mro__ if base in PUBLIC_DETAILS), None)
    return str(error) if public is None or has_admin_rights() else public


def logged_public_text(error: CbirError) -> str:
    """Return the message of `error` that the caller may see; log it where that says less."""
    text = public_text(error)
    if text != str(error):
        log.warning("%s", error)
    return text


def _handle(error: CbirError) -> Response:
    return error_response(error, logged_public_text(error))
