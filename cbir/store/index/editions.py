"""Editions of a vector index: which one answers, which one is being filled, and the lock of who follows.

Their record lies in a file, or, where several machines share an index, in the collection's PostgreSQL database.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ValidationError
from sqlalchemy import text

from cbir.store.base import metadata
from cbir.store.base.collection_folder import file_mode, folder_mode
from cbir.store.base.schema import DATABASE
from cbir.store.index.port import VectorIndex
from cbir.store.postgresql.postgresql_database import PostgresqlDatabase
from cbir.system.files import atomic_text, try_lock
from cbir.system.ownership import make_folder, open_or_create

FOLDER = "vector_index"  # in the files folder of a collection


class NextEdition(BaseModel):
    """Edition that is being filled. generation, last_change, state: of the collection when its fill began.

    filled_to: largest number of an image that is in it for certain.
    """

    name: str
    fingerprint: str
    generation: int
    last_change: int
    state: str = ""
    filled_to: int = 0


class EditionRecord(BaseModel):
    """Editions of an index. current: answers; None before a first fill has ended.

    fingerprint, statistics: of the vectors in it, serialised. filling: the next one. dropped: to be deleted.
    """

    current: str | None = None
    fingerprint: str = ""
    statistics: str = ""
    filling: NextEdition | None = None
    dropped: tuple[str, ...] = ()

    def next_name(self) -> str:
        """Return the name of a new edition. The names of another collection are different, even those of a copy."""
        latest = self.filling.name if self.filling else self.current
        base, _, count = (latest or f"cbir_{secrets.token_hex(8)}_0").rpartition("_")
        return f"{base}_{int(count) + 1}"


class StoredRecord(BaseModel):
    """Content of the file. database: inode of the collection's database; a copy of the folder has another."""

    database: int
    record: EditionRecord


class FolderEditions:
    """Record in the files folder of the collection, as of a local index and of a collection in SQLite."""

    def __init__(self, files: Path, kind: str) -> None:
        self.folder = files / FOLDER
        self._database = files / DATABASE
        self._path = self.folder / f"{kind}.json"
        self._lock_path = self.folder / f"{kind}.lock"

    def version(self) -> object:
        """Return what changes when the record does."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size, self._inode()

    def read(self) -> EditionRecord:
        """Return the record; an empty one if there is none, or if it belongs to another copy of the collection."""
        try:
            stored = StoredRecord.model_validate_json(self._path.read_bytes())
        except (FileNotFoundError, ValidationError):  # a damaged file: the index is made again
            return EditionRecord()
        return stored.record if stored.database == self._inode() else EditionRecord()

    def write(self, record: EditionRecord) -> None:
        """Replace the record, durably and in one step."""
        self._make_folder()
        stored = StoredRecord(database=self._inode(), record=record)
        with atomic_text(self._path, permissions=file_mode(self.folder)) as file:
            file.write(stored.model_dump_json())

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Hold the lock; yields False if another process, or another thread, holds it."""
        self._make_folder()
        with open(open_or_create(self._lock_path, os.O_WRONLY, file_mode(self.folder)), "wb") as file:
            yield try_lock(file.fileno())

    def _make_folder(self) -> None:
        make_folder(self.folder, folder_mode(self.folder.parent), exist_ok=True)

    def _inode(self) -> int:
        return self._database.stat().st_ino if self._database.exists() else 0


class IndexEngine(Protocol):
    """Opens and deletes editions by name.

    durable: images are stored for good when `put` returns, so that an interrupted fill can go on.
    """

    durable: bool

    def open(self, name: str, dimensions: int) -> VectorIndex:
        """Return an edition, which is created if it does not exist."""

    def drop(self, name: str) -> None:
        """Delete an edition, if it exists."""

    def drop_others(self, names: set[str]) -> None:
        """Delete what interrupted processes have left beside the editions `names`."""


LOCK = 0x63626978  # class of the advisory locks of those who follow


class SharedEditions:
    """Editions of one kind of index of a collection in PostgreSQL.

    Their record has a short text that is read for every search, and the statistics, a long one.

    Parameters
    ----------
    database : PostgresqlDatabase
        Database of the collection.
    kind : str
        Kind of the index.
    """

    def __init__(self, database: PostgresqlDatabase, kind: str) -> None:
        self._database, self._kind = database, kind
        self._keys = f"index:{kind}", f"index:{kind}:statistics"

    def version(self) -> object:
        """Return what changes when the record does."""
        with self._database.connect_once() as connection:
            return metadata.find_value(connection, self._keys[0])

    def read(self) -> EditionRecord:
        """Return the record; an empty one if there is none."""
        with self._database.connect() as connection:  # as one write stored them
            short, statistics = (metadata.find_value(connection, key) for key in self._keys)
        if short is None:
            return EditionRecord()
        try:
            return EditionRecord.model_validate_json(short).model_copy(
                update={"statistics": statistics or ""}
            )
        except ValidationError:  # of another version of the program: the index is made again
            return EditionRecord()

    def write(self, record: EditionRecord) -> None:
        """Replace the record, durably and in one step."""
        texts = record.model_dump_json(exclude={"statistics"}), record.statistics
        with self._database.engine.begin() as connection:
            for key, value in zip(self._keys, texts, strict=True):
                if metadata.find_value(connection, key) != value:
                    metadata.set_value(connection, key, value)

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Hold the lock of this index on all machines; yields False if another process holds it."""
        name = {"class": LOCK, "name": f"{self._database.schema}:{self._kind}"}
        arguments = "(:class, hashtext(:name))"
        engine = self._database.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            locked = bool(connection.scalar(text(f"SELECT pg_try_advisory_lock{arguments}"), name))
            try:
                yield locked
            finally:
                if locked and not connection.invalidated:
                    connection.execute(text(f"SELECT pg_advisory_unlock{arguments}"), name)


Editions = FolderEditions | SharedEditions
