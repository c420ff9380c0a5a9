"""Waiting of `cbir serve` and `cbir admin worker` for a database server that does not answer while they start."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from cbir.errors import DatabaseUnavailable, StorageFull
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.postgresql.postgresql_database import may_pass
from cbir.store.upkeep.restore import open_or_fallback
from cbir.system.console import echo
from service.state.database import open_state
from service.state.errors import StateUnavailable

WAIT_SECONDS = 2.0  # between two tries


def wait_for_state(settings: Settings, pause: Callable[[float], object] = time.sleep) -> None:
    """Wait until a state database in PostgreSQL answers: without it, no caller could be let in.

    One in a file is created, so that its absence beside an audit log with lines means that it was lost.

    Parameters
    ----------
    settings : Settings
    pause : callable
        Waits for some seconds.

    Raises
    ------
    StateUnavailable
        If waiting does not help, as with a wrong password.
    """
    database, reason = open_state(settings), None
    if not database.shared:
        with suppress(StateUnavailable, StorageFull):  # `/readyz` and the log say why
            database.check()
    while database.shared:
        try:
            database.check()
            return
        except StateUnavailable as error:
            if not may_pass(str(error)):
                raise
            if reason is None:
                reason = str(error)
                echo(f"waiting: {reason}; trying again every {WAIT_SECONDS:.0f} seconds", err=True)
        pause(WAIT_SECONDS)


def check_collections(folders: Sequence[Path], check: Callable[[Path, Collection], None]) -> None:
    """Open collections to report mistakes before anything is served; one whose server is down is opened later.

    Parameters
    ----------
    folders : sequence of Path
        Folders of the collections.
    check : callable
        Called with each folder and its open collection.

    Raises
    ------
    CbirError
        If a collection is missing or cannot be used; a server that does not answer is reported on standard error.
    """
    for folder in folders:
        try:
            with open_or_fallback(folder) as opened:
                check(folder, opened)
        except DatabaseUnavailable as error:
            if not may_pass(str(error)):
                raise
            echo(f"starting without it: {error}; it is used as soon as it answers", err=True)
