"""Access tokens in the state database, for services that share it."""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock

from pydantic import ValidationError

from cbir.errors import InvalidInput, StorageFull
from cbir.settings import Settings
from service.access.token_list import Token, TokenStorage, TokensUnreadable, token_id_of
from service.access.tokens import TokenStore
from service.state.database import StateDatabase
from service.state.errors import StateUnavailable
from service.state.token_rows import TokenRow, add_token, mark_revoked, read_tokens

CHECK_SECONDS = 1.0  # after which the database is asked again: another service may have revoked a token
UNCHECKED_SECONDS = 3600.0  # for which the tokens last read are used while the database does not answer

log = logging.getLogger(__name__)


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
                    mark_revoked(connection, token_id, token.revoked)
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
                "`cbir token list` shows them, and `cbir token create` adds others"
            )
        for token in tokens:
            add_token(connection, _row(token))
    return len(tokens)


def _parse(rows: Iterable[TokenRow]) -> dict[str, Token]:
    try:
        tokens = [_token(row) for row in rows]
    except (TypeError, ValidationError) as error:
        raise TokensUnreadable(
            "the table tokens of state_database is damaged; restore it from a backup"
        ) from error
    return {token.token_id: token for token in tokens}


def _token(row: TokenRow) -> Token:
    fields = row._asdict()
    rights = fields.pop("rights")
    return Token.model_validate(fields | rights)


def _row(token: Token) -> TokenRow:
    rights = token.model_dump(mode="json", include={"scopes", "collections", "where"})
    return TokenRow(
        token.token_id,
        token.name,
        token.digest,
        rights,
        token.created,
        token.expires,
        token.revoked,
        token.made_by,
    )
