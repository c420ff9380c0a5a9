"""Check in the background whether the servers that the service depends on answer, so that requests do not wait."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from cbir.errors import ArchiveFailed, StorageFull
from cbir.ingest.archive_client import ArchiveClient
from cbir.settings import Settings
from cbir.system.files import free_bytes
from service.access.security import audit_log_folder
from service.collections.mounted_collection import CollectionHandle
from service.http.problems import NotReady
from service.state.database import StateDatabase
from service.state.server_answers import ANSWER_SECONDS, PartCheck

STATE_DATABASE, COLLECTION_DATABASE, ARCHIVE = "state database", "collection database", "archive"
INDEX, AUDIT_LOG, DISK = "index", "audit log", "disk"
DISK_SECONDS = 5.0
ROOM_BYTES = 16 * 2**20  # free bytes of a disk below which it counts as full
STATE_SECONDS, ARCHIVE_SECONDS = 2.0, 30.0  # for which an answer holds


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
