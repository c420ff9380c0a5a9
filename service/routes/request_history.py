"""Counts requests by day, for administrators: in memory, and once a minute in the state database."""

import collections
import logging
import time
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import cast

from flask import Flask, Response, current_app, g, request

from cbir.errors import StorageFull
from service.access import scopes
from service.state.database import StateDatabase
from service.state.errors import StateUnavailable
from service.state.request_counts import CountKey, add_counts, load_counts

HISTORY = "cbir-request-history"
SAVE_SECONDS = 60.0
KEPT_DAYS = 400
REFUSALS = (401, 403, 429)

log = logging.getLogger(__name__)


class RequestHistory:
    """Numbers of requests by day. Thread-safe.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state.
    """

    def __init__(self, database: StateDatabase) -> None:
        self._database = database
        self._lock = Lock()
        self._unsaved: collections.Counter[CountKey] = collections.Counter()
        self._saved_at = time.monotonic()

    def count(self, action: str, method: str, status: int) -> None:
        """Count a request of today.

        Parameters
        ----------
        action : str
            Action of its address, see `service.access.scopes`.
        method : str
            Re-ranking method of a search; else "".
        status : int
            HTTP status of the response.
        """
        outcome = "refused" if status in REFUSALS else "failed" if status >= 400 else "done"
        with self._lock:
            self._unsaved[CountKey(_day(0), action, method, outcome)] += 1
            due = time.monotonic() - self._saved_at >= SAVE_SECONDS
            if due:
                self._saved_at = time.monotonic()
        if due:
            self._save()

    def _save(self) -> None:
        with self._lock:
            added, self._unsaved = self._unsaved, collections.Counter()
        try:
            if added:
                add_counts(self._database, added, _day(KEPT_DAYS))
        except (StateUnavailable, StorageFull) as error:
            log.warning("numbers of requests are not stored: %s", error)
            with self._lock:
                self._unsaved += added

    def load(self, days: int) -> dict[CountKey, int]:
        """Return the numbers of the last `days` days, today's included."""
        self._save()
        try:
            counts = collections.Counter(load_counts(self._database, _day(days - 1)))
        except (StateUnavailable, StorageFull):
            counts = collections.Counter()
        with self._lock:
            return counts + self._unsaved


def _day(ago: int) -> str:
    return (datetime.now(UTC) - timedelta(days=ago)).date().isoformat()


def install_history(app: Flask, database: StateDatabase) -> None:
    """Count the requests of `app` whose addresses have an action."""
    app.extensions[HISTORY] = RequestHistory(database)
    app.after_request(_count_request)


def request_history() -> RequestHistory:
    """Return the request history of the current app."""
    return cast(RequestHistory, current_app.extensions[HISTORY])


def note_method(name: str) -> None:
    """Note the re-ranking method of the search that the current request asks for."""
    g.rerank_method = name


def _count_request(response: Response) -> Response:
    rule = scopes.rule_of_request(request)
    if rule and rule.action:
        request_history().count(rule.action, g.get("rerank_method", ""), response.status_code)
    return response
