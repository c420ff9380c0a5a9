"""Check in the background whether the servers that the service depends on answer, so that requests do not wait."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread

from cbir.archive_client import ArchiveClient
from cbir.disk_space import free_bytes
from cbir.errors import ArchiveFailed, CbirError, StorageFull
from cbir.settings import Settings
from service.access.audit_writer import AuditWriter
from service.access.startup_checks import audit_log_folder
from service.collections.mounted_collection import CollectionHandle
from service.http.problems import NotReady
from service.state.database import StateDatabase

STATE_DATABASE, COLLECTION_DATABASE, ARCHIVE = "state database", "collection database", "archive"
INDEX, AUDIT_LOG, DISK = "index", "audit log", "disk"
DISK_SECONDS = 5.0
ROOM_BYTES = 16 * 2**20  # free bytes of a disk below which it counts as full
STATE_SECONDS, ARCHIVE_SECONDS = 2.0, 30.0  # for which an answer holds
ANSWER_SECONDS = 3.0  # after which a part that has not answered counts as down


class PartCheck:
    """Last answer of one part; asks it again, in a thread, when that is old. Thread-safe.

    Parameters
    ----------
    name : str
        Name of the part, for everyone.
    check : callable
        Raises CbirError if the part does not answer.
    seconds : float
        Time for which an answer holds.
    """

    def __init__(self, name: str, check: Callable[[], object], seconds: float) -> None:
        self.name = name
        self._check = check
        self._seconds = seconds
        self._lock = Lock()
        self._asked_at = float("-inf")  # on the monotonic clock
        self._answered = Event()  # the part has been asked once
        self._asking = self._down = False

    def is_down(self) -> bool:
        """Return True if the part did not answer when it was last asked; waits for its first answer only."""
        with self._lock:
            now = time.monotonic()
            if not self._asking and now >= self._asked_at + self._seconds:
                self._asking, self._asked_at = True, now
                Thread(target=self._ask, name=f"check of the {self.name}", daemon=True).start()
        self._answered.wait(ANSWER_SECONDS)
        return self._down or (self._asking and time.monotonic() >= self._asked_at + ANSWER_SECONDS)

    def _ask(self) -> None:
        try:
            self._check()
            self._down = False
        except CbirError:  # requests that need the part log the reason
            self._down = True
        finally:
            self._asking = False
            self._answered.set()


def checked_parts(
    settings: Settings, database: StateDatabase, folders: Callable[[], Mapping[str, Path]]
) -> list[PartCheck]:
    """Return checks of what the service depends on besides its collections and its audit log.

    Parameters
    ----------
    settings : Settings
    database : StateDatabase
        Database of the state.
    folders : callable
        Returns the folders that the service writes to, by what they hold.
    """
    parts = [
        PartCheck(STATE_DATABASE, lambda: _ask_database(database), STATE_SECONDS),
        PartCheck(DISK, lambda: _check_room(folders()), DISK_SECONDS),
    ]
    if settings.archive_url:
        client = ArchiveClient(settings.archive_url, ANSWER_SECONDS)
        parts.append(PartCheck(ARCHIVE, lambda: _ask_archive(client), ARCHIVE_SECONDS))
    return parts


def names_of_down_parts(
    parts: Iterable[PartCheck],
    database_problems: Iterable[str | None],
    index_problems: Iterable[str | None] = (),
) -> list[str]:
    """Return the names of the parts that do not answer, without those of collections.

    Parameters
    ----------
    parts : iterable of PartCheck
    database_problems, index_problems : iterable of str or None
        Of each collection, None for one whose database, or index, answers.
    """
    names = [part.name for part in parts if part.is_down()]
    if any(database_problems):
        names.append(COLLECTION_DATABASE)
    return [*names, INDEX] if any(index_problems) else names


def audit_part(audit: AuditWriter) -> PartCheck:
    """Return the check of an audit log."""
    return PartCheck(AUDIT_LOG, audit.check, STATE_SECONDS)


def written_folders(settings: Settings, handles: Iterable[CollectionHandle]) -> dict[str, Path]:
    """Return the folders that the service writes to, by what they hold, such as the state and each collection."""
    folders = {"state": settings.state_folder}
    if settings.annotation_folder:
        folders["segmentations"] = settings.annotation_folder
    if folder := audit_log_folder(settings):
        folders[AUDIT_LOG] = folder
    for handle in handles:
        with suppress(NotReady):
            folders[f"collection {handle.name}"] = handle.folder
    return folders


def _check_room(folders: Mapping[str, Path]) -> None:
    for content, folder in folders.items():
        free = free_bytes(folder)
        if free is not None and free < ROOM_BYTES:
            raise StorageFull(f"the disk with the {content} is full, or nearly so")


def _ask_database(database: StateDatabase) -> None:
    if not database.shared and not database.exists():  # nothing has been stored yet
        return
    with database.writing(in_turn=False):
        pass


def _ask_archive(client: ArchiveClient) -> None:
    try:
        client.search_one()
    except ArchiveFailed as error:
        if not error.answered:
            raise
