"""The app factory."""

from io import BytesIO
from pathlib import Path
from typing import IO, Any

import flask
from flask import Flask

from cbir.settings import Settings
from service import api, guards, health, pages, problems, thumbnails
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


def create_app(collection: Path | str, settings: Settings) -> Flask:
    """The service of the collection in a folder, which is opened when the first request needs it."""
    app = Application(__name__)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_upload_bytes + FORM_BYTES
    app.url_map.merge_slashes = False
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.extensions[EXTENSION] = State(Path(collection), settings)
    problems.install(app)
    guards.install(app, settings)
    check.install(app, settings)
    for blueprint in (
        api.blueprint,
        health.blueprint,
        login.blueprint,
        pages.blueprint,
        thumbnails.blueprint(),
    ):
        app.register_blueprint(blueprint)
    return app
