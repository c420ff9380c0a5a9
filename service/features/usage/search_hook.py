"""Searches that the usage log may keep, until the page reports that it has shown their answers."""

import secrets
from collections import OrderedDict
from threading import Lock

import numpy as np
from flask import Response, current_app, g, request

from cbir.search import Answer
from cbir.settings import Settings
from service.collections.app_state import current_state
from service.features.usage.replay_log import LoggedSearch
from service.http.search_parameters import ByImage, SearchParameters
from service.routes.search_hooks import HookedSearch, SearchHook
from service.state.schema import unix_time

EXTENSION = "cbir-usage"
HEADER = "Usage-Search"  # of a request: "log" asks for an id; of its response: the id
MAX_PENDING = 1000
MAX_SHOWN = 100  # answers of a search that are kept


class PendingSearches:
    """The last searches whose answers no page has reported yet, by id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._searches: OrderedDict[str, LoggedSearch] = OrderedDict()

    def add(self, search: LoggedSearch) -> None:
        """Add a search, and drop the oldest beyond the limit."""
        with self._lock:
            self._searches[search.search] = search
            if len(self._searches) > MAX_PENDING:
                self._searches.popitem(last=False)

    def take(self, search: str) -> LoggedSearch | None:
        """Remove a search and return it; None if it is not pending."""
        with self._lock:
            return self._searches.pop(search, None)


def pending_searches() -> PendingSearches:
    """Return the pending searches of the current app."""
    pending: PendingSearches = current_app.extensions[EXTENSION]
    return pending


def wants_log(settings: Settings) -> bool:
    """Return True if the current request is a search of the page, and the log is on."""
    return settings.usage_log and request.headers.get(HEADER) == "log"


def _kind_of(answer: Answer, params: SearchParameters) -> tuple[str, str | None]:
    """Return the kind of the query, and its id if it is a whole image of the collection."""
    uploaded = isinstance(params, ByImage) or bool(getattr(params, "origin", None))
    if params.examples or g.get("usage_several") or answer.query.format in ("text", "vector"):
        return "other", None
    if getattr(params, "region", None):
        return "upload" if uploaded else "region", None
    if answer.query.image_id:
        return "image", answer.query.image_id
    return "upload" if uploaded else "other", None


class LoggedSearches(SearchHook):
    """Keeps a search until the page reports that it has shown the answer."""

    def describe(self, search: HookedSearch) -> None:
        """Set the vector of a single image aside, if the log keeps vectors."""
        settings, queries = search.searcher.settings, search.queries
        g.usage_several = len(queries) > 1
        if g.usage_several or not settings.usage_vectors or not wants_log(settings):
            return
        descriptor = search.searcher.collection.profile.load_descriptor(settings.device)
        search.queries = [queries[0].described(descriptor)]
        g.usage_vector = np.asarray(search.queries[0].features, np.float32)

    def note_response(self, response: Response, answer: Answer, params: SearchParameters) -> None:
        """Keep a search of images of this service, and give the page that gets `response` its id."""
        state = current_state()
        if answer.sites is not None or not answer.results or not wants_log(state.settings):
            return
        handle = state.handle(params.collection)
        kind, image = _kind_of(answer, params)
        search = LoggedSearch(
            search=secrets.token_urlsafe(16),
            time=unix_time(),
            collection=handle.name,
            profile=handle.searcher().collection.profile.hash,
            method=answer.rerank.method,
            parameters=answer.rerank.parameters,
            k=params.k,
            kind=kind,
            query_image=image,
            vector=g.get("usage_vector") if kind in ("region", "upload") else None,
            filters=len(params.where) + (params.exclude_patient is not None),
            grouped=params.group_by is not None,
            judgements=len(params.feedback),
            answers=tuple(hit.image_id for hit in answer.results[:MAX_SHOWN]),
        )
        pending_searches().add(search)
        response.headers[HEADER] = search.search


HOOK = LoggedSearches()
