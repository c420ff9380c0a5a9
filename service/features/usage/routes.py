"""Endpoint that takes the events of the search page: an answer was shown, opened or judged."""

import logging
from http import HTTPStatus
from typing import Annotated, Literal

from flask import Blueprint, Flask, current_app
from pydantic import BaseModel, ConfigDict, Field

from cbir.errors import NotFound, StorageFull
from cbir.system.access_rights import Scope
from service.access.caller import caller_key
from service.access.rate_limits import RequestRate
from service.access.scopes import AccessRule
from service.collections.app_state import current_state
from service.features.usage import tables as usage_log
from service.features.usage.replay_log import RELEVANT, USEFUL
from service.features.usage.search_hook import EXTENSION, PendingSearches, pending_searches
from service.features.usage.tables import follow_deletions, forget_missing
from service.http.problems import TooManyRequests
from service.http.request_params import json_body, require_json
from service.state.database import EXTENSION as STATE
from service.state.database import StateDatabase, state_database
from service.state.errors import StateUnavailable

MAX_EVENTS = 50
BATCHES_PER_MINUTE = 120  # of a caller; the page sends at most one in two seconds
RATE_EXTENSION = "cbir-usage-rate"

RULES = {
    # Not logged: names images that the lines of searches name.
    "POST /usage": AccessRule(Scope.search),
}
blueprint = Blueprint("usage", __name__)
log = logging.getLogger(__name__)


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
    require_json()
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
