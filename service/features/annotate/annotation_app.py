"""The service's app for one annotation study alone: of its addresses, those of the study and of the login."""

from functools import partial
from pathlib import Path

from flask import Flask, redirect, request, url_for
from werkzeug.exceptions import NotFound as PageNotFound
from werkzeug.wrappers import Response as AnyResponse

from cbir.settings import Settings
from service.access import scopes
from service.access.scopes import OpenTo
from service.access.security import SAFE_METHODS
from service.app import create_app
from service.collections.app_state import EXTENSION as STATE
from service.features.annotate.annotation_pages import ANNOTATION_RULES, start_page
from service.features.annotate.annotation_studies import EXTENSION, AnnotationStudies
from service.features.annotate.study_plan import read_plan
from service.routes import openapi

DOCUMENTS = ("GET /docs", "GET /openapi.json")


def create_annotation_app(collection: Path, study: Path, settings: Settings) -> Flask:
    """Create the service for the study in the folder `study` over a collection, without what is not of the study."""
    app = create_app(collection.resolve(), settings, partial(keep_to_study, study=study))
    app.extensions[EXTENSION] = AnnotationStudies(app.extensions[STATE], study)
    app.context_processor(lambda: {"scope": "annotate"})
    return app


def keep_to_study(app: Flask, study: Path | None = None) -> None:
    """Let `app` have the addresses of a study and of the login alone, and open its page at "/"."""
    rules = app.extensions[scopes.RULES_EXTENSION]
    public = {address for address, rule in rules.items() if rule.need is OpenTo.anyone}
    remaining = public | ANNOTATION_RULES.keys() | set(DOCUMENTS)
    app.extensions[scopes.RULES_EXTENSION] = {address: rules[address] for address in remaining}
    app.extensions[openapi.SEPARATE_DOCUMENT] = ""
    app.before_request(partial(_leave_out_others, study))


def _leave_out_others(study: Path | None) -> AnyResponse | None:
    """Redirect "/" to the study, and answer other addresses that are not of it as if they did not exist."""
    if study and request.path == "/" and request.method in SAFE_METHODS:
        return redirect(url_for(start_page(read_plan(study))))
    if request.url_rule and scopes.rule_of_request(request) is None:
        raise PageNotFound
    return None
