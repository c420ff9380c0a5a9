"""Access tokens, stored as hashes in a file of the state folder or in the state database, and their last uses."""

import hashlib
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cbir.errors import InvalidInput, StorageFull, access_denied
from cbir.settings import Settings
from cbir.store.base.damage import raise_when_full
from cbir.system.access_rights import Rights, Scope
from cbir.system.files import atomic_binary, private_folder, wait_lock
from cbir.system.ownership import open_or_create
from service.access.token_list import Token, TokenStorage, TokensUnreadable, token_id_of
from service.state.access_rows import add_token, load_uses, mark_revoked, read_tokens, save_use
from service.state.database import StateDatabase
from service.state.schema import StateUnavailable, unix_time
from service.state.sqlite_file import permission_problem

__all__ = ["FILE", "Scope", "Token", "TokenStore", "TokensUnreadable"]

FILE = "tokens.json"
TOKENS_MARK = b"tokens were made\n"  # content of the lock file from then on

TOKEN_LIST = TypeAdapter(list[Token])
# JSON; the hash is that of the list's bytes. Versions before had the list alone.
CHECKED_FILE = re.compile(rb'\{"sha256": "([0-9a-f]{64})", "tokens": (\[.*\])\}\n', re.DOTALL)
FileVersion = tuple[int, int, int]  # inode, modification time in ns, size
CHECK_SECONDS = 1.0  # after which the database is asked again: another service may have revoked a token
UNCHECKED_SECONDS = 3600.0  # for which the tokens last read are used while the database does not answer
MINUTE = 60
SAVE_SECONDS = 600  # between two writes of the same token

log = logging.getLogger(__name__)


class TokenStore(TokenStorage):
    """Tokens of a state folder, reloaded when another process has changed them. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        self._cached: tuple[FileVersion, dict[str, Token]] | None = None

    def all(self) -> dict[str, Token]:
        """Return all tokens by id, in order of creation; raise TokensUnreadable if the file cannot be used."""
        status = self._status()
        if status is None:
            return {}
        version = status.st_ino, status.st_mtime_ns, status.st_size
        cached = self._cached
        if cached and cached[0] == version:
            return cached[1]
        tokens, checked = self._load()
        if not checked:
            with suppress(StateUnavailable, StorageFull), self._changing():  # which adds the checksum
                pass
        self._cached = version, tokens
        return tokens

    def _status(self) -> os.stat_result | None:
        """Return the status of the file; None if there is none yet."""
        try:
            status = self.file.stat()
        except FileNotFoundError:
            self._check_never_made()
            return None
        except PermissionError as error:
            raise TokensUnreadable(str(access_denied(error, self.file))) from error
        except OSError as error:
            raise TokensUnreadable(f"{self.file} cannot be read: {error.strerror}") from error
        self._check_permissions(status.st_mode)
        return status

    def _check_never_made(self) -> None:
        """Raise TokensUnreadable if there were tokens: without them the service would need none."""
        lock = self.file.with_name(f"{FILE}.lock")
        if lock.exists() and lock.stat().st_size:
            raise TokensUnreadable(
                f"{self.file} is missing, though tokens were made; restore it from a copy, or delete {lock.name} and "
                "create new tokens"
            )

    def _check_permissions(self, mode: int) -> None:
        """Raise TokensUnreadable if other users could read the tokens, or put their own in place."""
        if problem := permission_problem(self.file, mode):
            raise TokensUnreadable(problem)

    def _load(self) -> tuple[dict[str, Token], bool]:
        """Return the tokens, and whether the file has a checksum, as those of earlier versions have not."""
        try:
            content = self.file.read_bytes()
            match = CHECKED_FILE.fullmatch(content)
            if match and hashlib.sha256(match[2]).hexdigest().encode() != match[1]:
                raise TokensUnreadable(self._damaged)
            tokens = TOKEN_LIST.validate_json(match[2] if match else content)
        except PermissionError as error:
            raise TokensUnreadable(str(access_denied(error, self.file))) from error
        except OSError as error:
            raise TokensUnreadable(f"{self.file} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            raise TokensUnreadable(self._damaged) from error
        return {token.token_id: token for token in tokens}, match is not None

    @property
    def _damaged(self) -> str:
        return f"{self.file} is damaged; restore it from a backup, or move it away and create new tokens"

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """Yield the tokens for a change, and write them back atomically; one process at a time.

        Raises StorageFull, and StateUnavailable if the folder cannot be written for another reason.
        """
        folder = self.file.parent
        with self._translated_errors(folder):
            private_folder(folder)
            lock = open_or_create(folder / f"{FILE}.lock", os.O_RDWR)
        try:
            with self._translated_errors(self.file):
                wait_lock(lock)
            tokens = self._load()[0] if self._status() else {}
            yield tokens
            with self._translated_errors(self.file):
                self._write(list(tokens.values()))
                if not os.fstat(lock).st_size:
                    os.write(lock, TOKENS_MARK)
        finally:
            os.close(lock)

    @contextmanager
    def _translated_errors(self, path: Path) -> Iterator[None]:
        try:
            with raise_when_full(self.file.parent):
                yield
        except PermissionError as error:
            raise StateUnavailable(str(access_denied(error, path, writing=True))) from error
        except OSError as error:
            raise StateUnavailable(
                f"{path} in state_folder cannot be written: {error.strerror}; make it writable for the service"
            ) from error

    def _write(self, tokens: list[Token]) -> None:
        content = TOKEN_LIST.dump_json(tokens, indent=1, exclude_none=True)
        content = b'{"sha256": "%s", "tokens": %s}\n' % (
            hashlib.sha256(content).hexdigest().encode(),
            content,
        )
        with atomic_binary(self.file) as file:
            file.write(content)


class SharedTokens(TokenStorage):
    """Tokens of a state database, read again when they are a second old. Thread-safe.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state.
    """

    def __init__(self, database: StateDatabase) -> None:
        self._database = database
        self._lock = Lock()
        self._tokens: dict[str, Token] = {}
        self._read_at = self._asked_at = float("-inf")  # on the monotonic clock
        self._failed = False  # when the database was last asked

    def all(self) -> dict[str, Token]:
        """Return all tokens by id, in order of creation.

        Raises TokensUnreadable if the database has not answered for an hour, or never.
        """
        now = time.monotonic()
        if now < self._asked_at + CHECK_SECONDS:
            return self._tokens
        # One thread at a time asks a database that is down, which may take seconds; the others go on.
        waits = not self._failed or now >= self._read_at + UNCHECKED_SECONDS
        if not self._lock.acquire(blocking=waits):
            return self._tokens
        try:
            now = time.monotonic()
            if now >= self._asked_at + CHECK_SECONDS:  # no other thread has asked meanwhile
                self._read(now)
            return self._tokens
        finally:
            self._lock.release()

    def find(self, text: str) -> Token | None:
        """Return the token that a client sent as `text`; one that another service has just created is known too."""
        if token_id_of(text) not in self.all():
            with self._lock:
                self._read(time.monotonic())
        return super().find(text)

    def _read(self, now: float) -> None:
        try:
            with self._database.reading() as connection:
                self._tokens = _parse(read_tokens(connection))
        except (StateUnavailable, StorageFull) as error:
            self._failed = True
            if now >= self._read_at + UNCHECKED_SECONDS:
                raise TokensUnreadable(f"the tokens cannot be read: {error}") from error
            log.warning("the tokens cannot be read again: %s", error)
        else:
            self._read_at, self._failed = now, False
        self._asked_at = now

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        with self._database.writing() as connection:
            stored = _parse(read_tokens(connection))
            tokens = dict(stored)
            yield tokens
            for token_id, token in tokens.items():
                if token_id not in stored:
                    add_token(connection, _row(token))
                elif token.revoked and not stored[token_id].revoked:
                    mark_revoked(connection, token_id, token.revoked.timestamp())
        self._asked_at = float("-inf")  # this service sees the change with its next request


def open_tokens(settings: Settings, database: StateDatabase) -> TokenStorage:
    """Return the tokens of `settings`: those of the state database if services share it, else the file's."""
    return SharedTokens(database) if database.shared else TokenStore(settings.state_folder)


def copy_tokens(source: TokenStore, database: StateDatabase) -> int:
    """Copy the tokens of a file to a database that has none; return their number. Raises InvalidInput."""
    tokens = source.all().values()
    with database.writing() as connection:
        if tokens and read_tokens(connection):
            raise InvalidInput(
                "state_database has tokens already, so those of tokens.json are not copied; "
                "`cbir admin token list` shows them, and `cbir admin token create` adds others"
            )
        for token in tokens:
            add_token(connection, _row(token))
    return len(tokens)


def _parse(rows: Iterable[dict[str, Any]]) -> dict[str, Token]:
    try:
        tokens = [Token.model_validate(row | row.pop("rights")) for row in rows]
    except (TypeError, ValidationError) as error:
        raise TokensUnreadable(
            "the table tokens of state_database is damaged; restore it from a backup"
        ) from error
    return {token.token_id: token for token in tokens}


def _row(token: Token) -> dict[str, Any]:
    rights = set(Rights.model_fields)
    values = token.model_dump(exclude=rights) | {"rights": token.model_dump(mode="json", include=rights)}
    return {
        name: int(value.timestamp()) if isinstance(value, datetime) else value
        for name, value in values.items()
    }


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
