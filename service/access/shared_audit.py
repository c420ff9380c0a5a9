"""Audit log in the state database, for services that share it: writing, its check, and export."""

import hashlib
import hmac
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Condition
from typing import Any

from cbir.errors import CbirError, InvalidInput
from cbir.system.files import private_folder
from service.access.audit_chain import (
    NOT_WRITTEN,
    RESTARTED,
    AuditWriter,
    ChainHead,
    chain_line,
    read_head,
    read_key,
    read_or_create_key,
    start_chain,
    time_of_line,
)
from service.access.chain_check import ChainReport, LogLine, verify_chain
from service.state.audit_lines import (
    LogConnection,
    StoredChain,
    add_lines,
    begin_chain,
    last_line,
    lines,
    old_line,
    read_audit_lines,
    read_chain,
    remove_lines,
    save_chain,
)
from service.state.database import StateDatabase
from service.state.schema import unix_time

REMOVED_AT_ONCE = 10_000  # lines
HOUR, SOON = 3600.0, 10.0  # seconds until old lines are looked for again
DAY = 86_400

log = logging.getLogger(__name__)


class _WaitingLine:
    """Fields of a line that waits to be written, and what became of it."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.done = False
        self.error: Exception | None = None


class SharedAuditLog(AuditWriter):
    """Appends lines to a chain in the state database. Thread-safe, and every service appends to the same chain.

    Lines of requests that end while others are being written go into one transaction.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state.
    key_file : Path
        File with the key of the chain, the same for every service; created with the chain.
    days : int
        Days after which lines are removed; 0: never.
    """

    def __init__(self, database: StateDatabase, key_file: Path, days: int = 0) -> None:
        self._database = database
        self._key_file = key_file
        self._days = days
        self._key: bytes | None = None
        self._seen = 0  # number of the last line that this service knows of
        self._lost = 0
        self._clean_at = time.monotonic()
        self._changed = Condition()  # of the two below, and of the lines that wait
        self._writing = False
        self._entries: list[_WaitingLine] = []

    def open(self) -> None:
        """Begin the chain unless there is one; raise InvalidInput if its key is another one than that of the file."""
        with self._database.writing() as connection:
            self._locked_chain(connection)

    def close(self) -> None:
        """Do nothing: the database has its own connections."""

    def _add(self, fields: dict[str, Any]) -> None:
        entry = _WaitingLine(fields)
        with self._changed:
            self._entries.append(entry)
            self._changed.wait_for(lambda: entry.done or not self._writing)
            if not entry.done:  # no thread before has written it with its own
                self._writing = True
                entries, self._entries = self._entries, []
        if not entry.done:
            self._write(entries)
        if entry.error:
            raise entry.error
        if self._days and time.monotonic() >= self._clean_at:
            self._remove_old_lines()

    def _check_place(self) -> None:
        with self._database.writing(in_turn=self._key is None) as connection:
            self._locked_chain(connection)

    def _write(self, entries: list[_WaitingLine]) -> None:
        """Write lines in one transaction, and tell the threads that wait for them."""
        error: Exception | None = None
        try:
            self._append([entry.fields for entry in entries])
        except Exception as failure:  # each thread raises it
            error = failure
        with self._changed:
            self._lost = self._lost + len(entries) if error else 0
            for entry in entries:
                entry.error, entry.done = error, True
            self._writing = False
            self._changed.notify_all()

    def _append(self, new: list[dict[str, Any]]) -> None:
        if self._lost:
            new = [{"time": time_of_line(), "action": NOT_WRITTEN, "count": self._lost}, *new]
        # Services that begin the chain take turns; all others only wait for its last line.
        with self._database.writing(in_turn=self._key is None) as connection:
            state, restarted = self._locked_chain(connection)
            if restarted:
                log.error(
                    "lines of the audit log in the state database were removed, or the database was set back"
                )
                new = [{"time": time_of_line(), "action": RESTARTED}, *new]
            head, texts = ChainHead(state.number, state.mac), []
            for fields in new:
                line, head = chain_line(self._key or b"", head, fields)
                texts.append(line.decode().rstrip("\n"))
            state = state._replace(number=head.number, mac=head.mac)
            add_lines(connection, texts, unix_time(), state)
        self._seen = head.number

    def _locked_chain(self, connection: LogConnection) -> tuple[StoredChain, bool]:
        """Return the state of the chain, and whether lines may have been removed from its end."""
        state = read_chain(connection, lock=True)
        if state:
            self._key = self._key or _read_shared_key(self._key_file)
            if not hmac.compare_digest(state.key_check, key_check(self._key)):
                raise InvalidInput(
                    f"{self._key_file} is not the key of the audit log in state_database; copy the file that "
                    "audit_key_file names at another service"
                )
            return state, state.number < self._seen
        self._key = _create_key(self._key_file)
        line = last_line(connection)
        head = (line and read_head(self._key, line.encode())) or start_chain(self._key)
        state = StoredChain(head.number, head.mac, key_check(self._key), 0, mac_of_removed(self._key, 0))
        begin_chain(connection, state)
        return state, bool(line or self._seen)

    def _remove_old_lines(self) -> None:
        self._clean_at = time.monotonic() + HOUR
        try:
            with self._database.writing(in_turn=False) as connection:
                state = read_chain(connection, lock=True)
                last = old_line(connection, unix_time() - self._days * DAY, REMOVED_AT_ONCE)
                if state and last:
                    mac = mac_of_removed(self._key or b"", last)
                    removed = remove_lines(connection, last)
                    save_chain(connection, state._replace(removed=last, removed_mac=mac))
                    if removed >= REMOVED_AT_ONCE:
                        self._clean_at = time.monotonic() + SOON
        except CbirError as error:
            log.warning("old lines of the audit log are not removed: %s", error)


def key_check(key: bytes) -> str:
    """Return what tells whether two services have the same key, and nothing else of it."""
    return hmac.new(key, b"key check", hashlib.sha256).hexdigest()


def mac_of_removed(key: bytes, number: int) -> str:
    """Return what shows that a service has removed the lines up to `number` for their age."""
    return hmac.new(key, b"removed %d" % number, hashlib.sha256).hexdigest()


def read_stored_chain(connection: LogConnection) -> StoredChain:
    """Return the state of the chain; raises InvalidInput if no service has begun one."""
    state = read_chain(connection)
    if state is None:
        raise InvalidInput("state_database has no audit log yet; a service that needs tokens begins one")
    return state


def _read_shared_key(file: Path) -> bytes:
    try:
        return read_key(file)
    except FileNotFoundError as error:
        raise InvalidInput(
            f"{file}, the key of the audit log in state_database, does not exist; copy the file that audit_key_file "
            "names at another service"
        ) from error
    except OSError as error:
        raise InvalidInput(f"audit_key_file {file} cannot be read: {error.strerror}") from error


def _create_key(file: Path) -> bytes:
    try:
        private_folder(file.parent)
        return read_or_create_key(file)
    except OSError as error:
        raise InvalidInput(f"audit_key_file {file} cannot be written: {error.strerror}") from error


class SharedAuditLines:
    """Lines of the audit log in the state database.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state.
    key_file : Path
        File with the key of the chain.
    """

    def __init__(self, database: StateDatabase, key_file: Path) -> None:
        self._database = database
        self._key_file = key_file

    def exists(self) -> bool:
        """Return whether a service has begun the log."""
        with self._database.reading() as connection:
            return read_chain(connection) is not None

    def head(self) -> ChainHead:
        """Return the last line as the services have noted it; raises InvalidInput without a log."""
        with self._database.reading() as connection:
            state = read_stored_chain(connection)
        return ChainHead(state.number, state.mac)

    def since(self, seconds: int) -> Iterator[str]:
        """Yield the lines since a time in seconds since 1970, without newlines, as a file has them."""
        with self._database.reading() as connection:
            for _, line in read_audit_lines(connection, seconds):
                yield line

    def verify(self, first: int = 1, known: tuple[ChainHead, ...] = ()) -> ChainReport:
        """Check all lines, as of one moment.

        Parameters
        ----------
        first : int
            Number of the first line; those that services have removed for their age need not be named.
        known : tuple of ChainHead
            Heads that were noted elsewhere; those of removed lines are not looked for.

        Raises
        ------
        InvalidInput
            If there is no log, or its key cannot be read.
        """
        key = _read_shared_key(self._key_file)
        with self._database.reading() as connection:
            state = read_stored_chain(connection)
            if not hmac.compare_digest(state.key_check, key_check(key)):
                raise InvalidInput(f"{self._key_file} is not the key of the audit log in state_database")
            authentic = hmac.compare_digest(state.removed_mac, mac_of_removed(key, state.removed))
            begin = max(first, state.removed + 1) if authentic else first
            stored = (
                LogLine(lines.name, number, line.encode() + b"\n")
                for number, line in read_audit_lines(connection)
            )
            later = [head for head in known if head.number >= begin]
            report = verify_chain(key, stored, ChainHead(state.number, state.mac), begin, later)
        if not authentic:
            report.faults.append(
                "the note of removed lines was changed, so lines may be missing at the beginning"
            )
        return report
