"""App factory of the annotation server, and its access rules."""

from functools import partial
from pathlib import Path

from flask import Flask
from werkzeug.exceptions import Forbidden

from cbir.settings import Settings
from cbir.system.access_rights import Scope
from service.access import auth, login, scopes, security
from service.access.caller import current_rights
from service.access.scopes import RULES, AccessRule, OpenTo
from service.app import CbirFlask
from service.collections.app_state import EXTENSION as STATE
from service.collections.app_state import AppState
from service.features.annotate import annotation_page, judging_api, review_api
from service.features.annotate.annotation_state import EXTENSION, AnnotationState
from service.http import problems, request_bodies, responses
from service.http.request_bodies import MAX_JSON_BYTES
from service.languages import request_language
from service.pages import docs_routes
from service.routes import health_routes
from service.state import database

SHARED = (
    "GET /healthz",
    "GET /livez",
    "GET /static/*",
    "GET /languages/*/*.json",
    "GET /login",
    "POST /login",
    "GET /login/done",
    "POST /logout",
    "GET /docs/errors",
)
ANNOTATION_RULES: dict[str, AccessRule] = {address: RULES[address] for address in SHARED} | {
    "GET /annotate/static/*": AccessRule(OpenTo.anyone),
    "GET /annotate": AccessRule(Scope.annotate),
    "GET /docs": AccessRule(Scope.annotate),
    "GET /openapi.json": AccessRule(Scope.annotate),
    "GET /annotate/single": AccessRule(Scope.annotate),
    "GET /annotate/review": AccessRule(Scope.annotate),
    "GET /annotate/pairs": AccessRule(Scope.annotate, "pairs"),
    "GET /annotate/images": AccessRule(Scope.annotate, "pairs"),
    "GET /annotate/judgements": AccessRule(Scope.annotate, "review"),
    "GET /annotate/agreement": AccessRule(Scope.annotate),
    "GET /annotate/export/judgements.csv": AccessRule(Scope.annotate, "export"),
    "GET /annotate/export/judgements.json": AccessRule(Scope.annotate, "export"),
    "GET /annotate/export/images.csv": AccessRule(Scope.annotate, "export"),
    # Not logged: the lines of pairs, images and reviews name the images.
    "GET /annotate/images/*/picture": AccessRule(Scope.annotate),
    "POST /annotate/judgements": AccessRule(Scope.annotate, "judge"),
    "POST /annotate/grades": AccessRule(Scope.annotate, "grade"),
    "POST /annotate/undo": AccessRule(Scope.annotate, "undo"),
    "POST /annotate/severity": AccessRule(Scope.annotate, "severity"),
}


def _refuse_limited_callers(collection: str) -> None:
    """Raise Forbidden for a caller who may not see every image of the collection, since a study shows them all."""
    rights = current_rights()
    if rights and (rights.where or not rights.allows_collection(collection)):
        raise Forbidden(
            "a study shows all images of its collection, and this token may see a part of them only"
        )


def create_app(collection: Path, study: Path, settings: Settings) -> Flask:
    """Create the annotation server.

    Parameters
    ----------
    collection : Path
        Folder of the collection whose images are compared.
    study : Path
        Folder of the study.
    settings : Settings
        Settings of the service; its access control and request checks apply here too.

    Returns
    -------
    Flask
    """
    app = CbirFlask("service.app")  # shares its templates and static files
    app.config["MAX_CONTENT_LENGTH"] = MAX_JSON_BYTES
    app.url_map.merge_slashes = False
    state = app.extensions[STATE] = AppState([collection.resolve()], settings)
    app.extensions[EXTENSION] = AnnotationState(collection.resolve(), study)
    responses.install(app)
    problems.install(app)
    security.install(app, settings)
    request_bodies.install(app)
    app.before_request(annotation_page.redirect_to_page)
    database.install(app, state.database)
    auth.install(app, settings)
    request_language.install(app)
    app.before_request(partial(_refuse_limited_callers, collection.resolve().name))
    app.context_processor(lambda: {"scope": "annotate"})
    register_routes(app)
    return app


def register_routes(app: Flask) -> None:
    """Register all addresses of the annotation server and their access rules."""
    app.extensions[scopes.RULES_EXTENSION] = ANNOTATION_RULES
    app.add_url_rule("/healthz", view_func=health_routes.get_healthz)
    app.add_url_rule("/livez", view_func=health_routes.get_livez)
    for module in (login, docs_routes, annotation_page, judging_api, review_api):
        app.register_blueprint(module.blueprint)
