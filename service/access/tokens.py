"""Access tokens, stored as hashes in a file of the state folder."""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cbir.errors import StorageFull
from cbir.store.base.damage import raise_when_full
from cbir.system.access_rights import Scope
from cbir.system.files import OWNER_FILE, atomic_binary, private_folder, wait_lock
from service.access.token_list import Token, TokenStorage, TokensUnreadable
from service.state.errors import StateUnavailable
from service.state.sqlite_file import give_to_owner, permission_problem

__all__ = ["FILE", "Scope", "Token", "TokenStore", "TokensUnreadable"]

FILE = "tokens.json"
TOKENS_MARK = b"tokens were made\n"  # content of the lock file from then on

TOKEN_LIST = TypeAdapter(list[Token])
# JSON; the hash is that of the list's bytes. Versions before had the list alone.
CHECKED_FILE = re.compile(rb'\{"sha256": "([0-9a-f]{64})", "tokens": (\[.*\])\}\n', re.DOTALL)
FileVersion = tuple[int, int, int]  # inode, modification time in ns, size


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
            lock = os.open(folder / f"{FILE}.lock", os.O_RDWR | os.O_CREAT, OWNER_FILE)
        try:
            with self._translated_errors(self.file):
                give_to_owner(lock, folder)
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
            give_to_owner(file.fileno(), self.file.parent)
            file.write(content)
