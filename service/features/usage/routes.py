"""Usage log in the service: searches that await their page, and its events: an answer was shown, opened or judged."""

import logging
import secrets
from collections import OrderedDict
from http import HTTPStatus
from threading import Lock
from typing import Annotated, Any, Literal

import numpy as np
from flask import Blueprint, Flask, Response, current_app, g, request
from pydantic import BaseModel, ConfigDict, Field

from cbir.errors import NotFound, StorageFull
from cbir.search import Answer, Searcher
from cbir.settings import Settings
from cbir.system.access_rights import Scope
from service.access.caller import caller_key
from service.access.rate_limits import RequestRate
from service.access.scopes import AccessRule
from service.collections.app_state import current_state
from service.features.usage import tables as usage_log
from service.features.usage.replay_log import RELEVANT, USEFUL, LoggedSearch
from service.features.usage.tables import follow_deletions, forget_missing
from service.http.problems import TooManyRequests
from service.http.request_params import json_body
from service.http.search_parameters import ByImage, SearchParameters
from service.routes.search_hooks import HookedSearch, SearchHook
from service.state.database import EXTENSION as STATE
from service.state.database import StateDatabase, state_database
from service.state.schema import StateUnavailable, unix_time

EXTENSION = "cbir-usage"
HEADER = "Usage-Search"  # of a request: "log" asks for an id; of its response: the id
MAX_PENDING = 1000
MAX_SHOWN = 100  # answers of a search that are kept

MAX_EVENTS = 50
BATCHES_PER_MINUTE = 120  # of a caller; the page sends at most one in two seconds
RATE_EXTENSION = "cbir-usage-rate"

RULES = {
    # Not logged: names images that the lines of searches name.
    "POST /usage": AccessRule(Scope.search),
}
blueprint = Blueprint("usage", __name__)
log = logging.getLogger(__name__)


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


class UsageEvent(BaseModel):
    """Something that happened to an answer."""

    model_config = ConfigDict(extra="forbid")

    search: Annotated[str, Field(max_length=64)]
    event: Literal["shown", "compare", "metadata", "viewer", "relevant", "useful"]
    image: Annotated[str, Field(max_length=64)] = ""
    value: Annotated[int, Field(ge=-1, le=1)] = 1


class UsageEvents(BaseModel):
    """Events in the order in which they happened."""

    model_config = ConfigDict(extra="forbid")

    events: Annotated[list[UsageEvent], Field(max_length=MAX_EVENTS)]


def install_usage(app: Flask) -> None:
    """Give `app` a place for pending searches, and a limit of the events of each caller."""
    app.extensions[EXTENSION] = PendingSearches()
    app.extensions[RATE_EXTENSION] = RequestRate(
        BATCHES_PER_MINUTE, database=app.extensions[STATE], name="usage"
    )
    app.after_request(follow_deletions)


@blueprint.post("/usage")
def post_usage() -> tuple[str, HTTPStatus]:
    """Add events to the log; those of unknown searches, and of images not among the answers, are ignored."""
    if not current_state().settings.usage_log:
        raise NotFound("the usage log is off; the setting usage_log turns it on")
    if wait := current_app.extensions[RATE_EXTENSION].seconds_to_wait(caller_key()):
        raise TooManyRequests(
            f"more than {BATCHES_PER_MINUTE} batches of events per minute", retry_after=wait
        )
    try:
        for event in json_body(UsageEvents).events:
            _record(state_database(), event)
    except (StateUnavailable, StorageFull) as error:
        log.warning("the usage log cannot be written: %s", error)
    return "", HTTPStatus.NO_CONTENT


def _record(database: StateDatabase, event: UsageEvent) -> None:
    settings = current_state().settings
    if event.event == "shown":
        if search := pending_searches().take(event.search):
            usage_log.add_search(database, search, (settings.usage_days, settings.usage_searches))
            forget_missing(database, search)
        return
    answers = usage_log.answers_of(database, event.search)
    of_all = event.event == USEFUL and not event.image
    if answers is None or not (of_all or (event.event != USEFUL and event.image in answers)):
        return
    if event.event == RELEVANT or of_all or event.value > 0:
        usage_log.set_event(database, event.search, event.event, event.image, event.value)


def usage_facts(_searcher: Searcher, settings: Settings) -> dict[str, Any]:
    """Return whether searches are logged, and whether vectors of uploads are kept."""
    return {"log": settings.usage_log, "vectors": settings.usage_vectors}
