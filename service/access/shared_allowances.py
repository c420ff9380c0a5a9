"""Exchange of the numbers of requests between services that share their state."""

import logging
from collections import Counter
from collections.abc import Callable
from threading import Event, Lock, Thread

from cbir.errors import CbirError
from service.state.database import StateDatabase
from service.state.request_counts import forget_full_allowances, spend_requests

EXCHANGE_SECONDS = 1.0
EXCHANGES_PER_CLEANING = 300
MAX_EXCHANGED = 1000  # of one statement

log = logging.getLogger(__name__)


class SharedAllowances:
    """Takes requests from allowances in the state database, in a thread that ends when no more come. Thread-safe.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state, in PostgreSQL.
    name : str
        Name of the limit.
    per_minute : int
        Size of an allowance.
    changed : callable
        Called with a caller and what remains of its allowance, after each exchange.
    """

    def __init__(
        self, database: StateDatabase, name: str, per_minute: int, changed: Callable[[str, float], None]
    ) -> None:
        self._database = database
        self._prefix = f"{name} "
        self._per_minute = per_minute
        self._changed = changed
        self._lock = Lock()
        self._spent: Counter[str] = Counter()
        self._thread: Thread | None = None
        self._exchanges = 0

    def spend(self, caller: str) -> None:
        """Take a request from the allowance of `caller`, at the next exchange."""
        with self._lock:
            self._spent[caller] += 1
            if self._thread is None:
                self._thread = Thread(target=self._run, name="shared-allowances", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._exchange()
            Event().wait(EXCHANGE_SECONDS)
            with self._lock:
                if not self._spent:
                    self._thread = None
                    return

    def _exchange(self) -> None:
        with self._lock:
            spent = dict(self._spent.most_common(MAX_EXCHANGED))
        if not spent:
            return
        try:
            by_name = {self._prefix + caller: count for caller, count in spent.items()}
            remaining = spend_requests(self._database, by_name, self._per_minute)
            self._clean()
        except CbirError as error:
            log.warning("requests are counted at this service only: %s", error)
            remaining = {}
        with self._lock:
            self._spent -= Counter(spent)  # what is not exchanged is too old by the next time
            unsent = {caller: self._spent[caller] for caller in spent}
        for caller, count in unsent.items():
            if self._prefix + caller in remaining:
                self._changed(caller, remaining[self._prefix + caller] - count)

    def _clean(self) -> None:
        self._exchanges += 1
        if self._exchanges % EXCHANGES_PER_CLEANING == 0:
            forget_full_allowances(self._database)
