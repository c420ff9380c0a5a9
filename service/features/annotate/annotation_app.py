"""The annotation server: its pages for pairs, single images and review, access rules, and app factory."""

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from flask import Blueprint, Flask, redirect, render_template, request
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape
from werkzeug.exceptions import Forbidden
from werkzeug.wrappers import Response as AnyResponse

from cbir.settings import Settings
from cbir.system.access_rights import Scope
from service.access import auth, login, scopes, security
from service.access.caller import current_rights
from service.access.scopes import RULES, AccessRule, OpenTo
from service.app import CbirFlask
from service.collections.app_state import EXTENSION as STATE
from service.collections.app_state import AppState, current_state
from service.features.annotate import judging_api, review_api
from service.features.annotate.annotation_state import EXTENSION, AnnotationState, current_annotation
from service.features.annotate.judging_api import logged_in_annotator
from service.http import problems, request_bodies, responses
from service.http.problems import Conflict
from service.http.request_bodies import MAX_JSON_BYTES
from service.languages import request_language
from service.pages import docs_routes
from service.routes import health_routes
from service.state import database

TOP_LEVEL = 3  # of the headings: those of the page are h1 and h2
blueprint = Blueprint(
    "annotate",
    __name__,
    static_folder="static",
    static_url_path="/annotate/static",
    template_folder="templates",
)
PAIRS_PAGE, IMAGES_PAGE = "/annotate", "/annotate/single"
DIGITS = tuple(range(10))

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


def render_instructions(text: str) -> Markup:
    """Return `text`, Markdown after CommonMark with tables, as safe HTML; headings begin at h3."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("image", _alternative_text)
    tokens = markdown.parse(text)
    levels = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(TOP_LEVEL + int(token.tag[1]) - min(levels), 6)}"
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("rel", "noreferrer")
                child.attrSet("target", "_blank")
        token.attrs.pop("style", None)  # of table cells; the page allows no inline style
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))  # made from escaped text


def _alternative_text(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    return str(escape(tokens[index].content))


@blueprint.get(PAIRS_PAGE)
def show_annotation_page() -> str:
    """Render the page for pairs; its scripts load pairs and pictures."""
    return _render("annotate.html", "pairs")


@blueprint.get(IMAGES_PAGE)
def show_single_images() -> str:
    """Render the page for single images."""
    if not current_annotation().study.plan.grades:
        raise Conflict("this study has no grades; start it with --grades to grade single images")
    return _render("annotate.html", "images")


@blueprint.get("/annotate/review")
def show_review() -> str:
    """Render the page of what was judged."""
    return _render("review.html", "review")


def _render(template: str, page: str) -> str:
    study = current_annotation().study
    plan = study.plan
    return render_template(
        template,
        page=page,
        question=plan.question,
        annotator=logged_in_annotator(),
        collection=current_state().default,
        images=len(study.ids),
        where=plan.where,
        study=plan.study,
        grades=[
            {"value": f"{grade:g}", "name": plan.name_of(grade), "key": key}
            for grade, key in zip(plan.grades, grade_keys(plan.grades), strict=True)
        ],
        instructions=render_instructions(plan.instructions) if plan.instructions else None,
        instructions_version=hashlib.sha256(plan.instructions.encode()).hexdigest()[:16],
        references=plan.references,
    )


def grade_keys(grades: tuple[float, ...]) -> list[str]:
    """Return the digit that gives each grade, "" for none: the grade itself if all are digits, else its position."""
    if all(grade in DIGITS for grade in grades):
        return [f"{grade:g}" for grade in grades]
    return [str(position) if position < len(DIGITS) else "" for position in range(1, len(grades) + 1)]


def redirect_to_page() -> AnyResponse | None:
    """Redirect "/" to the page; installed before access control, since it needs no token."""
    if request.path != "/" or request.method not in ("GET", "HEAD"):
        return None
    return redirect(IMAGES_PAGE if current_annotation().study.plan.ask == "grades" else PAIRS_PAGE)


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
    app.before_request(redirect_to_page)
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
    for each in (
        login.blueprint,
        docs_routes.blueprint,
        blueprint,
        judging_api.blueprint,
        review_api.blueprint,
    ):
        app.register_blueprint(each)
