"""Search page: choose an image and see similar ones."""

from http import HTTPStatus
from typing import NamedTuple

import numpy as np
from flask import Blueprint, render_template, request

from cbir import rerank
from cbir.errors import NotFound
from cbir.search import Searcher
from cbir.store import Record, grade_models
from service.collections.app_state import current_state
from service.http.problems import NotReady
from service.pages import picture_routes
from service.pages.label_filters import label_filters_of

blueprint = Blueprint("pages", __name__)
blueprint.register_blueprint(picture_routes.blueprint)

DEFAULT_K = 20
EXAMPLES = 12  # images of the collection on the start page


class RerankerChoice(NamedTuple):
    """A re-ranker on the page; `name` is its name in the API."""

    name: str
    title: str
    explanation: str


CHOICES = (
    RerankerChoice("none", "Off", "Answers in the order of visual similarity alone."),
    RerankerChoice(
        "diffusion",
        "Neighbours of neighbours",
        "Lets relevance flow from the query to its nearest images, from those to theirs, and on through the whole "
        "collection.",
    ),
    RerankerChoice(
        "pearson",
        "Neighbours",
        "Moves up those of the nearest images that have the same neighbours as the query.",
    ),
    RerankerChoice(
        "eprf",
        "Learned relevance (EPRF)",
        "Takes the first answers as examples, weighs each by how far it can be trusted, learns what sets them "
        "apart, and puts the whole collection in a new order.",
    ),
    RerankerChoice(
        "nsu-eprf",
        "EPRF, no neighbours step",
        "As EPRF, from the plain order of similarity. For comparison.",
    ),
    RerankerChoice(
        "svm-eprf", "EPRF, equal weights", "As EPRF, trusting every example alike. For comparison."
    ),
    RerankerChoice(
        "pc",
        "Clusters (PC)",
        "Groups the nearest images by their likeness and moves up the groups that lie close to the query.",
    ),
    RerankerChoice(
        "nprf",
        "Negative feedback (NPRF)",
        "Learns what sets the query and the first answers apart from images far down the list, and puts the whole "
        "collection in a new order.",
    ),
    RerankerChoice(
        "k-reciprocal",
        "Mutual neighbours",
        "Moves up those of the nearest images that are neighbours of the same images as the query.",
    ),
    RerankerChoice(
        "aqe",
        "Query expansion",
        "Blends the query with the first answers and searches the whole collection again.",
    ),
)


@blueprint.get("/")
def index() -> tuple[str, HTTPStatus]:
    """Show the search page of a collection, or the reason why it is unavailable."""
    state = current_state()
    names = list(state.collections)
    try:
        handle = state.handle(request.args.get("collection"))
        searcher = handle.searcher()
    except (NotFound, NotReady) as error:
        missing = isinstance(error, NotFound)
        status = HTTPStatus.NOT_FOUND if missing else HTTPStatus.SERVICE_UNAVAILABLE
        page = render_template("unavailable.html", reason=str(error), missing=missing, collections=names)
        return page, status
    collection = searcher.collection
    page = render_template(
        "index.html",
        collection=handle.name,
        collections=names,
        images=len(collection.view()),
        profile=collection.profile.name,
        label_keys=list(collection.label_keys()),
        filters=label_filters_of(collection),
        grade_columns=_grade_columns(searcher),
        examples=_examples(searcher),
        choices=reranker_choices(),
        rerank=rerank.resolve_name(state.settings.rerank),
        k=min(DEFAULT_K, state.settings.max_results),
        max_results=state.settings.max_results,
        max_upload_bytes=state.settings.max_upload_bytes,
    )
    return page, HTTPStatus.OK


def reranker_choices() -> list[RerankerChoice]:
    """Return all re-rankers; one without a description has its name as title."""
    described = {choice.name: choice for choice in CHOICES}
    return [described.get(name, RerankerChoice(name, name, "")) for name in rerank.names()]


def _grade_columns(searcher: Searcher) -> list[str]:
    """The labels of grades that the collection has learnt from."""
    with searcher.collection.engine.connect() as connection:
        return grade_models.graded_labels(connection)


def _examples(searcher: Searcher) -> list[Record]:
    """Return a few images from all over the collection, in the order of insertion."""
    view = searcher.collection.view()
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    sample = rows[np.unique(np.linspace(0, len(rows) - 1, EXAMPLES).astype(int))] if len(rows) else rows
    records = searcher.collection.records(view.gallery.ids[sample].tolist())
    return [record for _, record in sorted(records.items())]
