"""Access tokens, stored as hashes in a file of the state folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cbir.access_rights import Scope
from cbir.atomic import OWNER_FILE, atomic_binary, private_folder
from cbir.file_lock import wait_lock
from cbir.store.disk_full import raise_when_full
from service.access.token_list import Token, TokenStorage, TokensUnreadable
from service.state.errors import StateUnavailable
from service.state.private_file import give_to_owner, permission_problem

__all__ = ["FILE", "Scope", "Token", "TokenStore", "TokensUnreadable"]

FILE = "tokens.json"
TOKENS_MARK = b"tokens were made\n"  # content of the lock file from then on

TOKEN_LIST = TypeAdapter(list[Token])
FileVersion = tuple[int, int, int]  # inode, modification time in ns, size


class TokenStore(TokenStorage):
    """Tokens of a state folder, reloaded when another process has changed them. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        self._cached: tuple[FileVersion, dict[str, Token]] | None = None

    def all(self) -> dict[str, Token]:
        """Return all tokens by id, in order of creation; raise TokensUnreadable if the file cannot be used."""
        try:
            status = self.file.stat()
        except FileNotFoundError:
            self._check_never_made()
            return {}
        except OSError as error:
            raise TokensUnreadable(f"{self.file} cannot be read: {error.strerror}") from error
        self._check_permissions(status.st_mode)
        version = status.st_ino, status.st_mtime_ns, status.st_size
        cached = self._cached
        if cached and cached[0] == version:
            return cached[1]
        tokens = self._load()
        self._cached = version, tokens
        return tokens

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

    def _load(self) -> dict[str, Token]:
        try:
            return {token.token_id: token for token in TOKEN_LIST.validate_json(self.file.read_bytes())}
        except OSError as error:
            raise TokensUnreadable(f"{self.file} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            raise TokensUnreadable(
                f"{self.file} is damaged; restore it from a backup, or move it away and create new tokens"
            ) from error

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
            tokens = dict(self.all())
            yield tokens
            with self._translated_errors(self.file):
                self._write(TOKEN_LIST.dump_json(list(tokens.values()), indent=1, exclude_none=True))
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

    def _write(self, content: bytes) -> None:
        with atomic_binary(self.file) as file:
            give_to_owner(file.fileno(), self.file.parent)
            file.write(content)
