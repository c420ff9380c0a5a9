"""Search page: choose an image and see similar ones."""

from typing import Any

import numpy as np
from flask import Blueprint

from cbir import rerank
from cbir.rerank.reranker import PAPER, PRESET
from cbir.rerank.several_examples import takes_several_examples
from cbir.search import MAX_TEXT, Searcher, can_search_by_text
from cbir.settings import Settings
from cbir.store import Record
from cbir.store.snapshot.derived_files import has_cells
from service.access.caller import actor_name
from service.collections.app_state import current_state
from service.languages import gettext
from service.pages import error_pages, picture_routes
from service.pages.collection_page import ShownCollection, collection_page
from service.pages.page_parts import facts_of_features, label_filters_of

blueprint = Blueprint("pages", __name__)
blueprint.register_blueprint(picture_routes.blueprint)
blueprint.register_blueprint(error_pages.blueprint)

DEFAULT_K = 20
EXAMPLES = 3  # images of the collection on the start page


@blueprint.get("/")
@collection_page
def index(current: ShownCollection) -> str:
    """Show the search page of a collection."""
    handle, searcher = current.handle, current.searcher
    collection = searcher.collection
    facts = _facts(searcher, current_state().settings) | {
        "caller": actor_name(),
        "collection": handle.name,
        "images": len(collection) if handle.is_indexed else len(collection.view()),
        "examples": _examples(searcher, handle.is_indexed),
    }
    return current.render("index.html", facts=facts)


def _facts(searcher: Searcher, settings: Settings) -> dict[str, Any]:
    """Return what the scripts of the page need to know about a collection and the service."""
    profile = searcher.collection.profile
    return {
        "profile": profile.name,
        "by_text": can_search_by_text(profile),
        "max_text": MAX_TEXT,
        "of_series": profile.volume_grid is not None,
        "anywhere": has_cells(searcher.collection.folder),
        "filters": label_filters_of(searcher.collection),
        "label_keys": list(searcher.collection.label_keys()),
        "rerankers": _rerankers(searcher),
        "rerank": settings.rerank,
        "k": min(DEFAULT_K, settings.max_results),
        "max_results": settings.max_results,
        "max_upload_bytes": settings.max_upload_bytes,
        "parts": facts_of_features("search", searcher, settings),
    }


def _rerankers(searcher: Searcher) -> list[dict[str, Any]]:
    """Return the re-rankers with their parameters, whose defaults are those of the collection's profile."""
    tuned = searcher.collection.profile.rerank
    return [
        {
            "name": choice.name,
            "title": choice.title,
            "description": choice.description,
            "takes_judgements": takes_several_examples(choice),
            "parameters": choice.parameter_infos(),
            "defaults": rerank.get_tuned(choice.name, tuned, {}).parameters,
            "paper": rerank.get(choice.name, **{PRESET: PAPER}).parameters if choice.paper else None,
        }
        for choice in rerank.RERANKERS
    ]


def _title(record: Record) -> str:
    """Return the name of an image as its card in the results has it."""
    values = [*record.labels.values(), gettext("image %(name)s", name=record.image_id[:8])]
    return record.labels.get("label") or values[0]


def _examples(searcher: Searcher, is_indexed: bool) -> list[dict[str, str]]:
    """Return a few images from all over the collection, in the order of insertion; of an index the first."""
    records = _example_records(searcher, is_indexed)
    return [{"image": record.image_id, "title": _title(record)} for record in records]


def _example_records(searcher: Searcher, is_indexed: bool) -> list[Record]:
    if is_indexed:
        return [record for _, record in searcher.collection.page(limit=EXAMPLES)]
    view = searcher.collection.view()
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    sample = rows[np.unique(np.linspace(0, len(rows) - 1, EXAMPLES).astype(int))] if len(rows) else rows
    records = searcher.collection.records(view.gallery.ids[sample].tolist())
    return [record for _, record in sorted(records.items())]
