"""The page: choose an image, see what is like it."""

from http import HTTPStatus
from typing import NamedTuple

import numpy as np
from flask import Blueprint, render_template, request

from cbir import rerank
from cbir.errors import NotFound
from cbir.search import Searcher
from cbir.store import Record, gradings
from service import pictures
from service.filters import offered
from service.problems import NotReady
from service.state import state

blueprint = Blueprint("pages", __name__)
blueprint.register_blueprint(pictures.blueprint)

DEFAULT_K = 20
EXAMPLES = 12  # images of the collection offered to start from


class Choice(NamedTuple):
    """A re-ranker in plain words; name is what the API calls it."""

    name: str
    title: str
    explanation: str


CHOICES = (
    Choice("none", "Off", "Answers in the order of visual similarity alone."),
    Choice(
        "diffusion",
        "Neighbours of neighbours",
        "Lets relevance flow from the query to its nearest images, from those to theirs, and on through the whole "
        "collection.",
    ),
    Choice(
        "pearson",
        "Neighbours",
        "Moves up those of the nearest images that have the same neighbours as the query.",
    ),
    Choice(
        "eprf",
        "Learned relevance (EPRF)",
        "Takes the first answers as examples, weighs each by how far it can be trusted, learns what sets them "
        "apart, and puts the whole collection in a new order.",
    ),
    Choice(
        "nsu-eprf",
        "EPRF, no neighbours step",
        "As EPRF, from the plain order of similarity. For comparison.",
    ),
    Choice("svm-eprf", "EPRF, equal weights", "As EPRF, trusting every example alike. For comparison."),
    Choice(
        "pc",
        "Clusters (PC)",
        "Groups the nearest images by their likeness and moves up the groups that lie close to the query.",
    ),
    Choice(
        "nprf",
        "Negative feedback (NPRF)",
        "Learns what sets the query and the first answers apart from images far down the list, and puts the whole "
        "collection in a new order.",
    ),
    Choice(
        "k-reciprocal",
        "Mutual neighbours",
        "Moves up those of the nearest images that are neighbours of the same images as the query.",
    ),
    Choice(
        "aqe",
        "Query expansion",
        "Blends the query with the first answers and searches the whole collection again.",
    ),
)


@blueprint.get("/")
def index() -> tuple[str, HTTPStatus]:
    """The page over one of the collections, or one that says why that cannot be searched."""
    here = state()
    names = list(here.places)
    try:
        place = here.place(request.args.get("collection"))
        searcher = place.searcher()
    except (NotFound, NotReady) as error:
        missing = isinstance(error, NotFound)
        status = HTTPStatus.NOT_FOUND if missing else HTTPStatus.SERVICE_UNAVAILABLE
        page = render_template("unavailable.html", reason=str(error), missing=missing, collections=names)
        return page, status
    collection = searcher.collection
    page = render_template(
        "index.html",
        collection=place.name,
        collections=names,
        images=len(collection.view()),
        profile=collection.profile.name,
        label_keys=list(collection.label_keys()),
        filters=offered(collection),
        grade_columns=_grade_columns(searcher),
        examples=_examples(searcher),
        choices=choices(),
        rerank=rerank.resolved(here.settings.rerank),
        k=min(DEFAULT_K, here.settings.max_results),
        max_results=here.settings.max_results,
        max_upload_bytes=here.settings.max_upload_bytes,
    )
    return page, HTTPStatus.OK


def choices() -> list[Choice]:
    """Every re-ranker there is; one without words of its own goes by its name."""
    described = {choice.name: choice for choice in CHOICES}
    return [described.get(name, Choice(name, name, "")) for name in rerank.names()]


def _grade_columns(searcher: Searcher) -> list[str]:
    """The labels of grades that the collection has learnt from."""
    with searcher.collection.engine.connect() as connection:
        return gradings.columns(connection)


def _examples(searcher: Searcher) -> list[Record]:
    """A few images from all over the collection, in the order they came."""
    view = searcher.collection.view()
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    chosen = rows[np.unique(np.linspace(0, len(rows) - 1, EXAMPLES).astype(int))] if len(rows) else rows
    records = searcher.collection.records(view.gallery.ids[chosen].tolist())
    return [record for _, record in sorted(records.items())]
