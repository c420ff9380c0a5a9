"""Access tokens, stored as hashes in a file of the state folder."""

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import AwareDatetime, TypeAdapter, ValidationError

from cbir.access_rights import Rights, Scope
from cbir.atomic import atomic_binary
from cbir.errors import InvalidInput, NotFound
from cbir.file_lock import wait_lock
from service.access.group_rights import check_rights
from service.http.problems import NotReady
from service.state.private_file import give_to_owner, permission_problem

FILE = "tokens.json"
PREFIX = "cbir"
SECRET_BYTES = 32
ID_BYTES = 4
MAX_NAME_LENGTH = 100  # characters


class TokensUnreadable(NotReady):
    """The token file is damaged or readable by all users; every request is refused."""


class Token(Rights):
    """Stored form of a token, with its rights.

    `digest` is the SHA-256 of its secret, which is 256 random bits, so no salt is needed.
    """

    token_id: str
    name: str
    digest: str
    created: AwareDatetime
    expires: AwareDatetime | None = None
    revoked: AwareDatetime | None = None

    @property
    def state(self) -> str:
        """ "valid", "expired" or "revoked", as of now."""
        if self.revoked:
            return "revoked"
        return "expired" if self.expires and self.expires <= datetime.now(UTC) else "valid"


TOKEN_LIST = TypeAdapter(list[Token])
FileVersion = tuple[int, int, int]  # inode, modification time in ns, size


class TokenStore:
    """Tokens of a state folder, reloaded when another process has changed them. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        self._cached: tuple[FileVersion, dict[str, Token]] | None = None

    def all(self) -> dict[str, Token]:
        """Return all tokens by id, in order of creation; raise TokensUnreadable if the file cannot be used."""
        try:
            status = self.file.stat()
        except FileNotFoundError:
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

    def get(self, token_id: str) -> Token | None:
        """Return the token with this id, or None if it is unknown or no longer valid."""
        token = self.all().get(token_id)
        return token if token and token.state == "valid" else None

    def find(self, text: str) -> Token | None:
        """Return the token, valid or not, that a client sent as `text`; None if it is unknown.

        Secrets are compared in constant time.
        """
        prefix, _, rest = text.partition("_")
        token_id, _, secret = rest.partition("_")
        token = self.all().get(token_id)
        expected = token.digest if token else _digest("")
        same = hmac.compare_digest(expected, _digest(secret))
        return token if same and token and prefix == PREFIX else None

    def create(
        self,
        scopes: Sequence[Scope],
        expires: datetime | None = None,
        name: str = "",
        collections: Sequence[str] = (),
        where: Sequence[str] = (),
    ) -> tuple[Token, str]:
        """Create a token.

        Parameters
        ----------
        scopes : sequence of Scope
            Permissions, at least one.
        expires : datetime, optional
            Time at which it expires; None for never.
        name : str
            Printable text of at most 100 characters, shown in the list of tokens.
        collections : sequence of str
            Names of the collections that it may use; empty for all.
        where : sequence of str
            Conditions that an image must fulfil to be visible; empty for every image.

        Returns
        -------
        Token
        str
            The text that clients send; it cannot be recovered later.

        Raises
        ------
        InvalidInput
            If an argument is out of range or the state folder cannot be written.
        """
        now = datetime.now(UTC).replace(microsecond=0)
        if not scopes:
            raise InvalidInput(f"--scope: at least one of {', '.join(Scope)} is needed")
        if expires and expires <= datetime.now(UTC):
            raise InvalidInput(f"--expires {expires:%Y-%m-%d %H:%M} UTC is in the past")
        if len(name) > MAX_NAME_LENGTH or not name.isprintable():
            raise InvalidInput(f"--name: at most {MAX_NAME_LENGTH} printable characters")
        rights = create_rights(scopes, collections, where)
        secret = secrets.token_urlsafe(SECRET_BYTES)
        with self._changing() as tokens:
            token_id = secrets.token_hex(ID_BYTES)
            while token_id in tokens:
                token_id = secrets.token_hex(ID_BYTES)
            tokens[token_id] = Token(
                token_id=token_id,
                name=name,
                digest=_digest(secret),
                created=now,
                expires=expires,
                **dict(rights),
            )
        return tokens[token_id], f"{PREFIX}_{token_id}_{secret}"

    def revoke(self, token_id: str) -> Token:
        """Revoke a token; raise NotFound if `token_id` is unknown.

        The token stays in the list, for readers of the audit log.
        """
        with self._changing() as tokens:
            if token_id not in tokens:
                raise NotFound(f"there is no token {token_id!r}; `cbir token list` shows all tokens")
            if not tokens[token_id].revoked:
                now = datetime.now(UTC).replace(microsecond=0)
                tokens[token_id] = tokens[token_id].model_copy(update={"revoked": now})
        return tokens[token_id]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """Yield the tokens for a change, and write them back atomically; one process at a time."""
        folder = self.file.parent
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(folder / f"{FILE}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise InvalidInput(f"state_folder {folder} cannot be written: {error.strerror}") from error
        try:
            give_to_owner(lock, folder)
            wait_lock(lock)
            tokens = dict(self.all())
            yield tokens
            self._write(TOKEN_LIST.dump_json(list(tokens.values()), indent=1))
        except OSError as error:
            raise InvalidInput(f"{self.file} cannot be written: {error.strerror}") from error
        finally:
            os.close(lock)

    def _write(self, content: bytes) -> None:
        with atomic_binary(self.file, permissions=0o600) as file:
            give_to_owner(file.fileno(), self.file.parent)
            file.write(content)


def create_rights(scopes: Sequence[Scope], collections: Sequence[str], where: Sequence[str]) -> Rights:
    """Return the rights of a new token; raise InvalidInput if they contradict each other.

    Parameters
    ----------
    scopes : sequence of Scope
        Permissions.
    collections, where : sequence of str
        Names of collections, and conditions on labels.
    """
    try:
        rights = Rights(scopes=tuple(sorted(set(scopes))), collections=tuple(collections), where=tuple(where))
    except ValidationError as error:
        message = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InvalidInput(f"--where: {message}") from None
    check_rights(rights, "--where")
    return rights


def _digest(secret: str) -> str:
    # Headers can hold any bytes, which arrive as lone surrogates.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
