"""The app factory of the annotation server."""

from pathlib import Path

from flask import Flask

from cbir.settings import Settings
from service import compression, docs, guards, health, problems
from service.access import check, login, scopes
from service.annotate import judgements, page, pairs, pictures, severity, table
from service.annotate.state import EXTENSION, Annotation
from service.app import Application
from service.bodies import JSON_BYTES
from service.state import EXTENSION as STATE
from service.state import State


def create_app(collection: Path, study: Path, settings: Settings) -> Flask:
    """The annotation server of a study over a collection, with the doors and guards of the service."""
    app = Application("service.app")  # whose templates and static files these pages share
    app.config["MAX_CONTENT_LENGTH"] = JSON_BYTES
    app.url_map.merge_slashes = False
    app.extensions[STATE] = State([collection.resolve()], settings)
    app.extensions[EXTENSION] = Annotation(collection.resolve(), study)
    app.extensions[scopes.EXTENSION] = table.ANNOTATE
    compression.install(app)
    problems.install(app)
    guards.install(app, settings)
    app.before_request(page.home)
    check.install(app, settings)
    app.context_processor(lambda: {"scope": "annotate"})
    app.add_url_rule("/healthz", view_func=health.healthz)
    app.add_url_rule("/livez", view_func=health.livez)
    app.add_url_rule("/docs/errors", view_func=docs.errors)
    for part in (login, page, pairs, judgements, pictures, severity):
        app.register_blueprint(part.blueprint)
    return app
