"""Pages of the core: search, Browse and administration, and what pages that show a collection have in common."""

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any, NamedTuple

import numpy as np
from flask import Blueprint, render_template, request

from cbir import rerank
from cbir.errors import NotFound
from cbir.rerank.reranker import PAPER, PRESET
from cbir.rerank.several_examples import takes_several_examples
from cbir.search import MAX_TEXT, Searcher, can_search_by_text
from cbir.settings import Settings
from cbir.store import Record
from cbir.store.snapshot.derived_files import has_cells
from cbir.system.access_rights import Scope
from service.access.auth import access_control
from service.access.caller import actor_name, current_rights
from service.collections.app_state import current_state
from service.collections.mounted_collection import CollectionHandle
from service.http.problems import NotReady
from service.languages import gettext, use_english
from service.pages import error_pages, picture_routes
from service.pages.error_pages import unavailable_page
from service.pages.page_parts import MAX_VALUES, facts_of_features, label_filters_of

blueprint = Blueprint("pages", __name__)
blueprint.register_blueprint(picture_routes.blueprint)
blueprint.register_blueprint(error_pages.blueprint)

DEFAULT_K = 20
EXAMPLES = 3  # images of the collection on the start page


class ShownCollection(NamedTuple):
    """The collection of a page. names: of all collections that the caller may use."""

    handle: CollectionHandle
    searcher: Searcher
    names: list[str]

    @property
    def in_links(self) -> str | None:
        """The name of the collection as links have it: None for the only one."""
        return self.handle.name if len(self.names) > 1 else None

    def render(self, template: str, **values: Any) -> str:
        """Render a template with the choice of a collection in its bar."""
        return render_template(
            template,
            collection=self.handle.name,
            collections=self.names,
            collection_arg=self.in_links,
            **values,
        )


def collection_page(show: Callable[[ShownCollection], str]) -> Callable[[], tuple[str, HTTPStatus]]:
    """Make a view of a function that shows a collection; it shows the reason where the collection is unavailable."""

    @wraps(show)
    def view() -> tuple[str, HTTPStatus]:
        state = current_state()
        try:
            handle = state.handle(request.args.get("collection"))
            current = ShownCollection(handle, handle.searcher(), state.visible_names())
        except (NotFound, NotReady) as error:
            return unavailable_page(error)
        return show(current), HTTPStatus.OK

    return view


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
        "max_values": MAX_VALUES,
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


@blueprint.get("/browse")
@collection_page
def show_browse(current: ShownCollection) -> str:
    """Show all images of a collection, to filter, look at, label, delete and export."""
    rights, searcher = current_rights(), current.searcher
    facts = {
        "collection": current.handle.name,
        "several": len(current.names) > 1,
        "can_label": rights is not None and rights.allows(Scope.annotate),
        "can_delete": rights is not None and rights.allows(Scope.admin),
        "parts": facts_of_features("browse", searcher, current_state().settings),
    }
    has_series = bool(searcher.collection.dicom_groups("study", None, 1))
    return current.render("browse.html", has_series=has_series, facts=facts)


@blueprint.get("/admin")
def show_admin() -> str:
    """Show administrators jobs, tokens, collections, requests, health and settings, which a script loads."""
    use_english()
    return render_template(
        "admin.html",
        scopes=list(Scope),
        collections=list(current_state().collections),
        needs_tokens=access_control().required,
    )
