"""Access tokens: what is stored of them, their rights and expiry, and what can be done with a list of them."""

import hashlib
import hmac
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, time, timedelta

from pydantic import AwareDatetime, ValidationError

from cbir.errors import InvalidInput, NotFound
from cbir.system.access_rights import Rights, Scope
from service.http.problems import NotReady

UNITS = {"h": "hours", "d": "days", "w": "weeks"}
NEVER = "never"
MAX_DAYS = 36_525
MAX_NAME_LENGTH = 100  # characters
PREFIX = "cbir"
SECRET_BYTES = 32
ID_BYTES = 4


def parse_expiry(text: str, now: datetime) -> datetime | None:
    """Return the expiry of a token created at `now`, None for never.

    `text` is a span such as 12h, 90d or 4w, a day such as 2030-12-31 (until its end, UTC), or never. Raises
    InvalidInput for any other text.
    """
    if text == NEVER:
        return None
    span = re.fullmatch(r"([0-9]{1,5})([hdw])", text)
    try:
        if span:
            end = now + timedelta(**{UNITS[span[2]]: int(span[1])})
        else:
            end = datetime.combine(datetime.strptime(text, "%Y-%m-%d").date(), time.max, UTC)
    except ValueError as error:
        raise InvalidInput(
            f"--expires {text!r}: expected a span like 12h, 90d or 4w, a day like 2030-12-31, or never"
        ) from error
    if end > now + timedelta(days=MAX_DAYS):
        raise InvalidInput(f"--expires {text!r} is more than a hundred years away; use never")
    return end.replace(microsecond=0)


def rights_of_groups(rights: Mapping[str, Rights], groups: Iterable[str]) -> Rights | None:
    """Return the rights of the first group in `rights` that is one of a user's `groups`; None if there is none."""
    memberships = set(groups)
    return next((granted for group, granted in rights.items() if group in memberships), None)


def valid_user_name(name: str) -> bool:
    """Return True if `name` can be written to logs: 1 to 100 printable characters."""
    return 0 < len(name) <= MAX_NAME_LENGTH and name.isprintable()


def check_rights(rights: Rights, name: str) -> None:
    """Raise InvalidInput if the label filter of `rights` cannot be used; `name` says where they come from."""
    if not rights.where:
        return
    from cbir.store.limited_collection import check_conditions
    from cbir.store.records.filter_conditions import parse_filter  # slow to import

    try:
        check_conditions([parse_filter(text) for text in rights.where])
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from error


class TokensUnreadable(NotReady):
    """The tokens cannot be read, or others could read their file; every request is refused."""


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
    made_by: str | None = None  # over HTTP: "token ID" or "user NAME"

    @property
    def state(self) -> str:
        """ "valid", "expired" or "revoked", as of now."""
        if self.revoked:
            return "revoked"
        return "expired" if self.expires and self.expires <= datetime.now(UTC) else "valid"


class TokenStorage(ABC):
    """Tokens of a service, in a file or a database. Thread-safe."""

    @abstractmethod
    def all(self) -> dict[str, Token]:
        """Return all tokens by id, in order of creation; raise TokensUnreadable if they cannot be read."""

    @abstractmethod
    def _changing(self) -> AbstractContextManager[dict[str, Token]]:
        """Yield the tokens for a change, and store them at the end of the block; one process at a time."""

    def get(self, token_id: str) -> Token | None:
        """Return the token with this id, or None if it is unknown or no longer valid."""
        token = self.all().get(token_id)
        return token if token and token.state == "valid" else None

    def find(self, text: str) -> Token | None:
        """Return the token, valid or not, that a client sent as `text`; None if it is unknown.

        Secrets are compared in constant time.
        """
        prefix, _, rest = text.partition("_")
        secret = rest.partition("_")[2]
        token = self.all().get(token_id_of(text))
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
        made_by: str | None = None,
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
        made_by : str, optional
            "token ID" or "user NAME" of the caller that creates it; None for the command line.

        Returns
        -------
        Token
        str
            The text that clients send; it cannot be recovered later.

        Raises
        ------
        InvalidInput
            If an argument is out of range.
        StorageFull, StateUnavailable
            If the token cannot be stored.
        """
        now = datetime.now(UTC).replace(microsecond=0)
        if not scopes:
            raise InvalidInput(f"--scope: at least one of {', '.join(Scope)} is needed")
        if expires and expires <= datetime.now(UTC):
            raise InvalidInput(f"--expires {expires:%Y-%m-%d %H:%M} UTC is in the past")
        if len(name) > MAX_NAME_LENGTH or not name.isprintable():
            raise InvalidInput(f"--name: at most {MAX_NAME_LENGTH} printable characters")
        try:
            rights = Rights(
                scopes=tuple(sorted(set(scopes))), collections=tuple(collections), where=tuple(where)
            )
        except ValidationError as error:
            message = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise InvalidInput(f"--where: {message}") from None
        check_rights(rights, "--where")
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
                made_by=made_by,
                **dict(rights),
            )
        return tokens[token_id], f"{PREFIX}_{token_id}_{secret}"

    def revoke(self, token_id: str, *, with_made: bool = False) -> list[Token]:
        """Revoke a token, and with `with_made` those that it has made, those that they have made, and so on.

        Returns the given token, and those of the others that were not revoked before. All stay in the list, for
        readers of the audit log. Raises NotFound if `token_id` is unknown.
        """
        with self._changing() as tokens:
            if token_id not in tokens:
                raise NotFound(f"there is no token {token_id!r}; `cbir admin token list` shows all tokens")
            made_ids = made_tokens(tokens, token_id) if with_made else ()
            revoked_ids = [token_id, *(name for name in made_ids if not tokens[name].revoked)]
            now = datetime.now(UTC).replace(microsecond=0)
            for name in revoked_ids:
                if not tokens[name].revoked:
                    tokens[name] = tokens[name].model_copy(update={"revoked": now})
        return [tokens[name] for name in revoked_ids]


def made_tokens(tokens: Mapping[str, Token], token_id: str) -> list[str]:
    """Return the ids of the tokens that a token has made, those that they have made, and so on."""
    made_ids, makers = [], {f"token {token_id}"}
    for other in tokens.values():  # in order of creation, so that makers come first
        if other.made_by in makers:
            makers.add(f"token {other.token_id}")
            made_ids.append(other.token_id)
    return made_ids


def token_id_of(text: str) -> str:
    """Return the id of the token that a client sent as `text`, "" if it has none."""
    return text.partition("_")[2].partition("_")[0]


def _digest(secret: str) -> str:
    # Headers can hold any bytes, which arrive as lone surrogates.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
