"""App factory of the service."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import flask
from flask import Flask

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.settings import Settings
from service.access import auth, login, security
from service.collections.app_state import EXTENSION, AppState
from service.features.annotate.reader_study import routes as reader_routes
from service.features.audit import page as audit_page
from service.features.audit import routes as audit_routes
from service.features.audit.quarantine import page as quarantine_page
from service.features.audit.quarantine import routes as quarantine_routes
from service.features.explain import routes as explain_routes
from service.features.federation import routes as federation_routes
from service.features.grade import routes as grade_routes
from service.features.map import page as map_page
from service.features.map import routes as map_routes
from service.features.monailabel import routes as monailabel_routes
from service.features.oidc import routes as oidc_login
from service.features.saved.cases import page as cases_page
from service.features.saved.cases import routes as case_routes
from service.features.saved.cohorts import page as cohorts_page
from service.features.saved.cohorts import routes as cohort_routes
from service.features.similar import routes as similar_routes
from service.features.similar import viewer_embed
from service.features.similar.priors import routes as prior_routes
from service.features.usage import routes as usage_routes
from service.http import problems, request_bodies, responses
from service.http.request_bodies import AnyNameFormParser
from service.languages import request_language
from service.pages import admin_page, docs_routes, gallery_page, search_page
from service.routes import (
    add_routes,
    admin_overview,
    admin_tokens,
    batch_routes,
    collection_routes,
    health_routes,
    image_routes,
    image_set_routes,
    job_routes,
    label_routes,
    metrics_routes,
    request_history,
    reranker_routes,
    search_routes,
    series_routes,
    stow_routes,
    vector_routes,
)
from service.state import database

FORM_OVERHEAD_BYTES = 64 * 2**10  # multipart/form-data may add this to the images


class InMemoryRequest(flask.Request):
    """Request that keeps uploads in memory: images of patients are never written to a temporary folder."""

    form_data_parser_class = AnyNameFormParser

    def _get_file_stream(self, *_: Any, **__: Any) -> IO[bytes]:
        return BytesIO()


class CbirFlask(Flask):
    """Flask app that keeps uploads in memory."""

    request_class = InMemoryRequest


def check_reranker(name: str) -> None:
    """Raise InvalidInput if the setting `rerank` names no re-ranker."""
    try:
        rerank.reranker_class(name)
    except InvalidInput as error:
        raise InvalidInput(f"the setting rerank: {error}") from error


def create_app(collections: Path | str | Sequence[Path], settings: Settings) -> Flask:
    """Create the service over the `collections` in one or more folders, with `settings`.

    Collections are opened by the first request that needs them. Requests name them by the name of the folder, or of
    the alias that is given instead of one; the first is the default.
    """
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
    request_history.install(app, state.database)
    auth.install(app, settings)
    request_language.install(app)
    usage_routes.install_usage(app)
    for part in (
        search_routes,
        batch_routes,
        label_routes,
        map_routes,
        audit_routes,
        quarantine_routes,
        vector_routes,
        reranker_routes,
        case_routes,
        cohort_routes,
        add_routes,
        collection_routes,
        grade_routes,
        image_routes,
        image_set_routes,
        job_routes,
        series_routes,
        monailabel_routes,
        similar_routes,
        prior_routes,
        federation_routes,
        stow_routes,
        explain_routes,
        docs_routes,
        viewer_embed,
        health_routes,
        admin_overview,
        admin_page,
        admin_tokens,
        login,
        oidc_login,
        metrics_routes,
        search_page,
        gallery_page,
        map_page,
        audit_page,
        quarantine_page,
        cases_page,
        cohorts_page,
        usage_routes,
        reader_routes,
    ):
        app.register_blueprint(part.blueprint)
    return app
