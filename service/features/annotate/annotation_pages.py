"""Pages of annotation studies: their list, pages for pairs, single images and review, and an app for one study."""

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from flask import Blueprint, Flask, redirect, render_template, request, url_for
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape
from werkzeug.exceptions import NotFound as PageNotFound
from werkzeug.wrappers import Response as AnyResponse

from cbir.errors import InvalidInput, NotFound
from cbir.settings import Settings
from cbir.system.access_rights import Scope
from service.access import scopes
from service.access.caller import current_rights, logged_public_text
from service.access.scopes import ANY_TOKEN, AccessRule, OpenTo
from service.access.security import SAFE_METHODS
from service.app import create_app
from service.collections.app_state import EXTENSION as STATE
from service.features.annotate.annotation_studies import (
    EXTENSION,
    PARAMETER,
    AnnotationStudies,
    ListedStudy,
    current_annotation,
    current_studies,
)
from service.features.annotate.judging_api import logged_in_annotator
from service.features.annotate.reader_study import routes as reader_study
from service.features.annotate.study_plan import StudyPlan, read_plan
from service.http.problems import Conflict, NotReady
from service.languages import mark
from service.pages.page_parts import MenuPage
from service.routes import openapi

TOP_LEVEL = 3  # of the headings: those of the page are h1 and h2
DIGITS = tuple(range(10))
PAIRS_PAGE, IMAGES_PAGE = "annotate.show_pairs", "annotate.show_single_images"

DOCUMENTS = ("GET /docs", "GET /openapi.json")  # of an app for one study

blueprint = Blueprint("annotate", __name__)
MENU_PAGE = MenuPage("annotate.show_studies", mark("Studies"), 60, of_collection=False)

ANNOTATION_RULES = {
    "GET /annotate": AccessRule(Scope.annotate),
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
RULES = reader_study.RULES | ANNOTATION_RULES | {"GET /studies": ANY_TOKEN}


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


@blueprint.get("/annotate")
def show_pairs() -> str | AnyResponse:
    """Render the page for pairs; its scripts load pairs and pictures."""
    return _render("annotate.html", "pairs")


@blueprint.get("/annotate/single")
def show_single_images() -> str | AnyResponse:
    """Render the page for single images."""
    return _render("annotate.html", "images")


@blueprint.get("/annotate/review")
def show_review() -> str | AnyResponse:
    """Render the page of what was judged."""
    return _render("review.html", "review")


def _render(template: str, page: str) -> str | AnyResponse:
    try:
        annotation = current_annotation()
    except InvalidInput:  # an address without a name, saved when there was one study
        return redirect(url_for("annotate.show_studies"))
    except NotFound as error:  # a browser gets the page for missing addresses
        raise PageNotFound(str(error)) from error
    plan = annotation.study.plan
    if page == "images" and not plan.grades:
        raise Conflict("this study has no grades; start it with --grades to grade single images")
    name = request.args.get(PARAMETER)
    facts = {
        "id": plan.study,
        "name": name,
        "page": page,
        "who": logged_in_annotator(),
        "grades": grade_buttons(plan),
        "references": [reference.model_dump() for reference in plan.references],
        "instructions_version": hashlib.sha256(plan.instructions.encode()).hexdigest()[:16],
    }
    return render_template(
        template,
        facts=facts,
        page=page,
        plan=plan,
        collection=annotation.collection,
        images=len(annotation.study.ids),
        address=lambda endpoint: url_for(endpoint, study=name),
        instructions=render_instructions(plan.instructions) if plan.instructions else None,
    )


def start_page(plan: StudyPlan) -> str:
    """Return the endpoint of the page that a study opens with."""
    return IMAGES_PAGE if plan.ask == "grades" else PAIRS_PAGE


def grade_buttons(plan: StudyPlan) -> list[dict[str, str]]:
    """Return value, name and key of the button of each grade."""
    keys = grade_keys(plan.grades)
    return [
        {"value": f"{grade:g}", "name": plan.name_of(grade), "key": key}
        for grade, key in zip(plan.grades, keys, strict=True)
    ]


def grade_keys(grades: tuple[float, ...]) -> list[str]:
    """Return the digit that gives each grade, "" for none: the grade itself if all are digits, else its position."""
    if all(grade in DIGITS for grade in grades):
        return [f"{grade:g}" for grade in grades]
    return [str(position) if position < len(DIGITS) else "" for position in range(1, len(grades) + 1)]


@blueprint.get("/studies")
def show_studies() -> str:
    """List the studies that the caller may open."""
    rights = current_rights()
    return render_template(
        "studies.html",
        reader_studies=reader_study.list_visible() if rights and rights.allows(Scope.search) else [],
        annotation_studies=_annotation_studies() if rights and rights.allows(Scope.annotate) else [],
        is_owner=reader_study.is_owner(),
    )


def _annotation_studies() -> list[tuple[ListedStudy, str]] | None:
    """Return the annotation studies that the caller may open, with their addresses; None if their folder is away."""
    try:
        return [(study, _address(study)) for study in current_studies().list_visible()]
    except NotReady as error:
        logged_public_text(error)
        return None


def _address(study: ListedStudy) -> str:
    return url_for(start_page(study.plan), study=study.name)


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
