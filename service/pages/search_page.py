"""Search page: choose an image and see similar ones."""

from http import HTTPStatus

import numpy as np
from flask import Blueprint, render_template, request

from cbir import rerank
from cbir.errors import NotFound
from cbir.rerank.several_examples import takes_several_examples
from cbir.search import MAX_TEXT, Searcher, can_search_by_text
from cbir.search.regions.explanation import explanation_kind
from cbir.store import Record
from cbir.store.snapshot.derived_files import has_cells
from service.collections.app_state import current_state
from service.http.problems import NotReady
from service.languages import gettext
from service.pages import error_pages, picture_routes
from service.pages.error_pages import unavailable_page
from service.pages.page_parts import label_filters_of

blueprint = Blueprint("pages", __name__)
blueprint.register_blueprint(picture_routes.blueprint)
blueprint.register_blueprint(error_pages.blueprint)

DEFAULT_K = 20
EXAMPLES = 12  # images of the collection on the start page


@blueprint.get("/")
def index() -> tuple[str, HTTPStatus]:
    """Show the search page of a collection, or the reason why it is unavailable."""
    state = current_state()
    names = state.visible_names()
    try:
        handle = state.handle(request.args.get("collection"))
        searcher = handle.searcher()
    except (NotFound, NotReady) as error:
        return unavailable_page(error)
    collection = searcher.collection
    page = render_template(
        "index.html",
        collection=handle.name,
        collections=names,
        collection_arg=handle.name if len(names) > 1 else None,
        images=len(collection) if handle.is_indexed else len(collection.view()),
        profile=collection.profile.name,
        by_text=can_search_by_text(collection.profile),
        of_series=collection.profile.volume_grid is not None,
        explained=explanation_kind(collection.profile),
        anywhere=has_cells(collection.folder),
        other_sites=list(state.settings.sites),
        label_keys=list(collection.label_keys()),
        filters=label_filters_of(collection),
        grade_columns=searcher.collection.graded_labels(),
        examples=_examples(searcher, handle.is_indexed),
        title_of=_title,
        choices=rerank.RERANKERS,
        takes_judgements=takes_several_examples,
        parameters={
            name: rerank.get_tuned(name, collection.profile.rerank, {}).parameters for name in rerank.names()
        },
        rerank=state.settings.rerank,
        k=min(DEFAULT_K, state.settings.max_results),
        max_results=state.settings.max_results,
        max_text=MAX_TEXT,
        usage_log=state.settings.usage_log,
        usage_vectors=state.settings.usage_vectors,
        max_upload_bytes=state.settings.max_upload_bytes,
    )
    return page, HTTPStatus.OK


def _title(record: Record) -> str:
    """Return the name of an image as its card in the results has it."""
    values = [*record.labels.values(), gettext("image %(name)s", name=record.image_id[:8])]
    return record.labels.get("label") or values[0]


def _examples(searcher: Searcher, is_indexed: bool) -> list[Record]:
    """Return a few images from all over the collection, in the order of insertion; of an index the first."""
    if is_indexed:
        return [record for _, record in searcher.collection.page(limit=EXAMPLES)]
    view = searcher.collection.view()
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    sample = rows[np.unique(np.linspace(0, len(rows) - 1, EXAMPLES).astype(int))] if len(rows) else rows
    records = searcher.collection.records(view.gallery.ids[sample].tolist())
    return [record for _, record in sorted(records.items())]
