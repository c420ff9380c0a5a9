"""App factory of the service."""

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import flask
from flask import Flask, Response, send_from_directory

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.store.erasure import load_erasers
from cbir.system.features import features
from service.access import auth, login, scopes, security
from service.collections.app_state import EXTENSION, AppState
from service.http import collection_paths, problems, request_bodies, responses
from service.http.request_bodies import AnyNameFormParser
from service.languages import request_language
from service.pages import core_pages, error_pages, page_files, page_parts
from service.routes import (
    add_routes,
    admin_overview,
    collection_routes,
    health_routes,
    image_routes,
    image_set_routes,
    job_routes,
    metrics_routes,
    openapi,
    search_routes,
    stow_routes,
)
from service.routes.search_hooks import search_hooks
from service.state import database
from service.state.schema import check_tables

FORM_OVERHEAD_BYTES = 64 * 2**10  # multipart/form-data may add this to the images


class InMemoryRequest(flask.Request):
    """Request that keeps uploads in memory: images of patients are never written to a temporary folder."""

    form_data_parser_class = AnyNameFormParser

    def _get_file_stream(self, *_: Any, **__: Any) -> IO[bytes]:
        return BytesIO()


class CbirFlask(Flask):
    """Flask app that keeps uploads in memory, and serves static files of features too."""

    request_class = InMemoryRequest

    def send_static_file(self, filename: str) -> Response:
        """Send a file of the core, or of a feature."""
        if bundle := page_files.bundle_response(filename):
            return bundle
        folder = self.extensions.get(page_parts.FEATURE_FILES, {}).get(filename)
        if folder is None:
            return super().send_static_file(filename)
        return send_from_directory(folder, filename, max_age=self.get_send_file_max_age(filename))


def check_reranker(name: str) -> None:
    """Raise InvalidInput if the setting `rerank` names no re-ranker."""
    try:
        rerank.reranker_class(name)
    except InvalidInput as error:
        raise InvalidInput(f"the setting rerank: {error}") from error


def create_app(
    collections: Path | str | Sequence[Path],
    settings: Settings,
    prepare: Callable[[Flask], None] = lambda app: None,
) -> Flask:
    """Create the service.

    Parameters
    ----------
    collections : Path, str or sequence of Path
        One or more folders of collections, opened by the first request that needs them. Requests name them by the
        name of the folder, or of the alias that is given instead of one; the first is the default.
    settings : Settings
    prepare : callable
        Called with the app when it has its access rules, before they are applied, to change them.

    Returns
    -------
    Flask
    """
    list(load_erasers())  # raises if a feature could store what no erasure reaches
    folders = [Path(collections)] if isinstance(collections, Path | str) else collections
    app = CbirFlask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_upload_bytes + FORM_OVERHEAD_BYTES
    app.url_map.merge_slashes = False
    app.json.sort_keys = False  # type: ignore[attr-defined]
    check_reranker(settings.rerank)
    state = app.extensions[EXTENSION] = AppState([folder.resolve() for folder in folders], settings)
    responses.install(app)  # installed first, so it sees responses last
    metrics_routes.install(app, state)
    problems.install(app)
    security.install(app, settings)
    request_bodies.install(app)
    database.install(app, state.database)
    metrics_routes.install_history(app, state.database)
    app.extensions[scopes.RULES_EXTENSION] = scopes.all_rules()
    prepare(app)
    error_pages.install_moved(app)  # before rights are checked: an old address has none
    auth.install(app, settings)
    request_language.install(app)
    page_parts.install_menu(app)
    page_parts.install_files(app)
    page_files.install(app)
    for feature in features():
        if feature.install:
            feature.load(feature.install)(app)
    for part in (
        search_routes,
        add_routes,
        collection_routes,
        image_routes,
        image_set_routes,
        job_routes,
        stow_routes,
        openapi,
        health_routes,
        admin_overview,
        login,
        metrics_routes,
        core_pages,
    ):
        app.register_blueprint(part.blueprint)
    for feature in features():
        for reference in feature.routes:
            app.register_blueprint(feature.load(reference))
    collection_paths.install(app)
    list(search_hooks())  # loaded now: later there may be no file to spare
    check_tables()
    return app
