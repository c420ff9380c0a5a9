"""Tokens: who may ask, kept as hashes in a file of the state folder."""

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict, TypeAdapter, ValidationError

from cbir.errors import InvalidInput, NotFound
from service.problems import NotReady

FILE = "tokens.json"
PREFIX = "cbir"
SECRET_BYTES = 32
ID_BYTES = 4
MOST_NAME = 100  # characters


class TokensUnreadable(NotReady):
    """The file of tokens is damaged, or others than its owner and group may read it; nobody is let in."""


class Scope(StrEnum):
    """What a token is for; admin may do everything, each other one only what its name says."""

    search = "search"
    ingest = "ingest"
    annotate = "annotate"
    admin = "admin"


class Token(BaseModel):
    """What is kept of a token. digest: SHA-256 of its secret, which is 256 random bits, so no salt is needed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    token_id: str
    name: str
    scopes: tuple[Scope, ...]
    digest: str
    created: AwareDatetime
    expires: AwareDatetime | None = None
    revoked: AwareDatetime | None = None

    @property
    def state(self) -> str:
        """valid, expired or revoked, at this moment."""
        if self.revoked:
            return "revoked"
        return "expired" if self.expires and self.expires <= datetime.now(UTC) else "valid"

    def may(self, scope: Scope) -> bool:
        """Whether the token is for that."""
        return scope in self.scopes or Scope.admin in self.scopes


ALL = TypeAdapter(list[Token])
Identity = tuple[int, int, int]  # inode, time of change in ns, size


class Tokens:
    """The tokens of a state folder, read again whenever another process changed them. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        self._read: tuple[Identity, dict[str, Token]] | None = None

    def all(self) -> dict[str, Token]:
        """Every token by its id, in the order they were made; raises TokensUnreadable."""
        try:
            status = self.file.stat()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise TokensUnreadable(f"{self.file} cannot be read: {error.strerror}") from error
        identity = status.st_ino, status.st_mtime_ns, status.st_size
        known = self._read
        if known and known[0] == identity:
            return known[1]
        if status.st_mode & 0o007:
            raise TokensUnreadable(f"{self.file} is open to every user of the machine; chmod 600 closes it")
        found = self._load()
        self._read = identity, found
        return found

    def _load(self) -> dict[str, Token]:
        try:
            return {token.token_id: token for token in ALL.validate_json(self.file.read_bytes())}
        except OSError as error:
            raise TokensUnreadable(f"{self.file} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            raise TokensUnreadable(
                f"{self.file} is damaged; take it from a backup, or move it away and make new tokens"
            ) from error

    def get(self, token_id: str) -> Token | None:
        """The token of that id while it is valid."""
        found = self.all().get(token_id)
        return found if found and found.state == "valid" else None

    def find(self, text: str) -> Token | None:
        """The token that a client sent, valid or not; None where there is none. Compared in constant time."""
        prefix, _, rest = text.partition("_")
        token_id, _, secret = rest.partition("_")
        found = self.all().get(token_id)
        expected = found.digest if found else _digest("")
        same = hmac.compare_digest(expected, _digest(secret))
        return found if same and found and prefix == PREFIX else None

    def create(
        self, scopes: Sequence[Scope], expires: datetime | None = None, name: str = ""
    ) -> tuple[Token, str]:
        """A new token, and the text that is shown once; raises InvalidInput."""
        now = datetime.now(UTC).replace(microsecond=0)
        if not scopes:
            raise InvalidInput(f"--scope: at least one is needed, of {', '.join(Scope)}")
        if expires and expires <= datetime.now(UTC):
            raise InvalidInput(f"--expires {expires:%Y-%m-%d %H:%M} UTC is past")
        if len(name) > MOST_NAME or not name.isprintable():
            raise InvalidInput(f"--name: at most {MOST_NAME} printable characters")
        secret = secrets.token_urlsafe(SECRET_BYTES)
        with self._changing() as tokens:
            token_id = secrets.token_hex(ID_BYTES)
            while token_id in tokens:
                token_id = secrets.token_hex(ID_BYTES)
            tokens[token_id] = Token(
                token_id=token_id,
                name=name,
                scopes=tuple(sorted(set(scopes))),
                digest=_digest(secret),
                created=now,
                expires=expires,
            )
        return tokens[token_id], f"{PREFIX}_{token_id}_{secret}"

    def revoke(self, token_id: str) -> Token:
        """End a token now; it stays in the list, for readers of the audit log. Raises NotFound."""
        with self._changing() as tokens:
            if token_id not in tokens:
                raise NotFound(f"there is no token {token_id!r}; `cbir token list` shows those there are")
            if not tokens[token_id].revoked:
                now = datetime.now(UTC).replace(microsecond=0)
                tokens[token_id] = tokens[token_id].model_copy(update={"revoked": now})
        return tokens[token_id]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """The tokens, written back in one step when nothing was raised; one process at a time."""
        folder = self.file.parent
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(folder / f"{FILE}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise InvalidInput(f"state_folder {folder} cannot be written: {error.strerror}") from error
        try:
            _hand_over(lock, folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = dict(self.all())
            yield tokens
            self._write(ALL.dump_json(list(tokens.values()), indent=1))
        except OSError as error:
            raise InvalidInput(f"{self.file} cannot be written: {error.strerror}") from error
        finally:
            os.close(lock)

    def _write(self, content: bytes) -> None:
        new = self.file.with_suffix(".new")
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            _hand_over(file.fileno(), self.file.parent)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.file)
        folder = os.open(self.file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _hand_over(file: int, folder: Path) -> None:
    """Give a file to the folder's owner: after `sudo cbir token create` the service must still be able to read it."""
    if os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(file, owner.st_uid, owner.st_gid)


def _digest(secret: str) -> str:
    # A header may hold any bytes, which arrive as characters that are no text of their own.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
