"""The app factory."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import flask
from flask import Flask

from cbir.settings import Settings
from service import (
    api,
    api_add,
    api_collection,
    api_grade,
    api_images,
    api_jobs,
    api_similar,
    api_stow,
    compression,
    docs,
    framed,
    guards,
    health,
    metrics,
    pages,
    problems,
)
from service.access import check, login
from service.state import EXTENSION, State

FORM_BYTES = 64 * 2**10  # what multipart/form-data may add to the image


class InMemoryRequest(flask.Request):
    """A request whose files stay in memory: pictures of patients are not written to a temporary folder."""

    def _get_file_stream(self, *_: Any, **__: Any) -> IO[bytes]:
        return BytesIO()


class Application(Flask):
    """Flask with uploads kept in memory."""

    request_class = InMemoryRequest


def create_app(collections: Path | str | Sequence[Path], settings: Settings) -> Flask:
    """The service of the collections in one or more folders, which are opened when a request needs them.

    Requests call them by their folders' names, and mean the first where they name none.
    """
    folders = [Path(collections)] if isinstance(collections, Path | str) else collections
    app = Application(__name__)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_upload_bytes + FORM_BYTES
    app.url_map.merge_slashes = False
    app.json.sort_keys = False  # type: ignore[attr-defined]
    here = app.extensions[EXTENSION] = State([folder.resolve() for folder in folders], settings)
    compression.install(app)  # first to be installed, last to see a response
    metrics.install(app, here)
    problems.install(app)
    guards.install(app, settings)
    check.install(app, settings)
    for part in (
        api,
        api_add,
        api_collection,
        api_grade,
        api_images,
        api_jobs,
        api_similar,
        api_stow,
        docs,
        framed,
        health,
        login,
        metrics,
        pages,
    ):
        app.register_blueprint(part.blueprint)
    return app
