"""Last use of each token: to the minute in memory, and now and then in the state database."""

import logging

from cbir.errors import StorageFull
from service.state.database import StateDatabase
from service.state.errors import StateUnavailable
from service.state.schema import unix_time
from service.state.token_rows import load_uses, save_use

MINUTE = 60
SAVE_SECONDS = 600  # between two writes of the same token

log = logging.getLogger(__name__)


class LastUses:
    """Last use of each token. Thread-safe.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state.
    """

    def __init__(self, database: StateDatabase) -> None:
        self._database = database
        self._used: dict[str, int] = {}
        self._saved: dict[str, int] = {}

    def note(self, token_id: str) -> None:
        """Note that a valid token is used now."""
        now = unix_time() // MINUTE * MINUTE
        self._used[token_id] = now
        if now - self._saved.get(token_id, 0) >= SAVE_SECONDS:
            self._saved[token_id] = now
            try:
                save_use(self._database, token_id, now)
            except (StateUnavailable, StorageFull) as error:
                log.warning("the last use of a token is not stored: %s", error)

    def all(self) -> dict[str, int]:
        """Return the seconds since 1970 at which each token was last used, by its id."""
        try:
            saved = load_uses(self._database)
        except (StateUnavailable, StorageFull):  # what is in memory may do
            saved = {}
        used = self._used.copy()
        return {name: max(saved.get(name, 0), used.get(name, 0)) for name in saved | used}
