"""Pages of a study: comparing pairs, grading single images, and reviewing what was judged."""

import hashlib
from collections.abc import Sequence
from typing import Any

from flask import Blueprint, redirect, render_template, request
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape
from werkzeug.wrappers import Response as AnyResponse

from service.collections.app_state import current_state
from service.features.annotate.annotation_state import current_annotation
from service.features.annotate.judging_api import logged_in_annotator
from service.http.problems import Conflict

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
