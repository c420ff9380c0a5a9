"""OpenID Connect: discovery, the authorization code flow with PKCE, and logins that have begun in a browser."""

import hmac
import logging
import math
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from itsdangerous import BadSignature, URLSafeTimedSerializer

from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.system.files import read_password
from cbir.system.remedies import install_command
from service.access.security import is_loopback
from service.access.sessions import User
from service.access.token_list import MAX_NAME_LENGTH, valid_user_name
from service.features.oidc.id_token import SignatureInvalid, TokenInvalid, valid_claims
from service.state.access_rows import signing_key
from service.state.database import StateDatabase

if TYPE_CHECKING:
    from authlib.integrations.requests_client import OAuth2Session
    from joserfc.jwk import KeySet
    from requests import Response, Session

LIFETIME_SECONDS = 600  # of a login that has begun in a browser
MAX_COOKIE_LENGTH = 3800  # browsers drop cookies of more than 4096 bytes
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
SECONDS = 10  # for each answer of the provider
METADATA_SECONDS = 3600  # metadata and keys are fetched again
KEYS_SECONDS = 10  # at least, between two fetches because of a signature that no key has made
DOWN_SECONDS = 10  # until a provider that does not answer is asked again
MAX_GROUPS = 1000
MAX_BYTES = 2**20  # of an answer of the provider
PIECE = 2**14  # bytes of an answer read at a time

AnySession = TypeVar("AnySession", bound="Session")

log = logging.getLogger(__name__)


class PendingLogin(NamedTuple):
    """Login that has begun in a browser. next: path of this service to show afterwards."""

    state: str
    nonce: str
    verifier: str
    next: str


class PendingLogins:
    """Logins that have begun, each in a signed cookie of its browser: no number of others can end them. Thread-safe.

    Parameters
    ----------
    key : callable
        Returns the key of the signatures; called by the first login.
    """

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key

    @cached_property
    def _serializer(self) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(self._key(), salt="pending login")

    def begin(self, path: str) -> tuple[str, PendingLogin]:
        """Begin a login that ends at `path`, at / if that is too long; return the browser's cookie, and the login."""
        state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
        login = PendingLogin(state, nonce, verifier, path)
        cookie = str(self._serializer.dumps(login))
        return (cookie, login) if len(cookie) <= MAX_COOKIE_LENGTH else self.begin("/")

    def end(self, cookie: str, state: str) -> PendingLogin | None:
        """Return the login of `cookie`, if its state is `state` and it is not too old; else None.

        The caller deletes the cookie. The provider accepts the code of a login once.
        """
        try:
            login = PendingLogin(*self._serializer.loads(cookie, max_age=LIFETIME_SECONDS))
        except BadSignature:
            return None
        same = hmac.compare_digest(login.state, state.encode("ascii", "replace").decode())
        return login if same else None


class LoginFailed(Exception):
    """The provider does not answer, or its answer is not valid. The text names no person and no secret."""


class OidcClient:
    """This service as a client of the OpenID Connect provider in `settings`. Thread-safe.

    The state database keeps the key of logins that have begun, so that they can end after a restart.
    """

    def __init__(self, settings: Settings, database: StateDatabase) -> None:
        self.settings = settings
        self._lock = Lock()
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._renewed = -math.inf  # when the keys were last fetched because of a signature
        self._down_until = 0.0
        self.pending = PendingLogins(partial(signing_key, database, "pending login"))

    def authorization_url(self, redirect_uri: str, state: str, nonce: str, verifier: str) -> str:
        """Return the address at the provider that a login begins with.

        Parameters
        ----------
        redirect_uri : str
            Address of this service that the provider sends the browser back to.
        state, nonce, verifier : str
            Random texts that tie the answer to this browser, the ID token to this login, and the code to this client.

        Raises
        ------
        LoginFailed
            If the provider does not answer.
        """
        with self._session(redirect_uri) as session:
            url, _ = session.create_authorization_url(
                self._provider()["authorization_endpoint"], state=state, nonce=nonce, code_verifier=verifier
            )
        return str(url)

    def fetch_user(self, code: str, redirect_uri: str, nonce: str, verifier: str) -> User:
        """Exchange the code of a login for an ID token, and return its user.

        Parameters
        ----------
        code : str
            Code that the provider has sent.
        redirect_uri, nonce, verifier : str
            As in `authorization_url`.

        Raises
        ------
        LoginFailed
            If the provider does not answer or does not accept the code, or the token is not valid or lacks a claim.
        """
        from authlib.common.errors import AuthlibBaseError
        from requests import RequestException

        endpoint = self._provider()["token_endpoint"]
        try:
            with self._session(redirect_uri) as session:
                answer = session.fetch_token(endpoint, code=code, code_verifier=verifier, timeout=SECONDS)
        except AuthlibBaseError as error:
            raise LoginFailed(f"the provider did not accept the code: {type(error).__name__}") from error
        except (RequestException, ValueError) as error:
            raise LoginFailed(f"the provider did not exchange the code: {type(error).__name__}") from error
        return self._user(self._claims(answer, nonce))

    def _claims(self, answer: dict[str, Any], nonce: str) -> dict[str, Any]:
        """Return the claims of a valid ID token; keys are fetched again if none of them has signed it."""
        try:
            keys = self._key_set()
            try:
                return self._valid_claims(answer, nonce, keys)
            except SignatureInvalid:
                newer = self._key_set(other_than=keys)
                if newer is keys:
                    raise
                return self._valid_claims(answer, nonce, newer)
        except TokenInvalid as error:
            raise LoginFailed(f"the ID token {error}") from error

    def _valid_claims(self, answer: dict[str, Any], nonce: str, keys: "KeySet") -> dict[str, Any]:
        return valid_claims(
            str(answer.get("id_token", "")),
            keys,
            issuer=str(self.settings.oidc_issuer),
            client_id=str(self.settings.oidc_client_id),
            nonce=nonce,
            access_token=answer.get("access_token"),
        )

    def _user(self, claims: dict[str, Any]) -> User:
        name, groups = (
            claims.get(self.settings.oidc_user_claim),
            claims.get(self.settings.oidc_groups_claim, []),
        )
        if not isinstance(name, str):
            raise LoginFailed(f"the ID token has no claim {self.settings.oidc_user_claim} (oidc_user_claim)")
        name = name.strip()
        if not valid_user_name(name):
            raise LoginFailed(
                f"the claim {self.settings.oidc_user_claim} (oidc_user_claim) is empty, longer than "
                f"{MAX_NAME_LENGTH} characters or not printable"
            )
        groups = [groups] if isinstance(groups, str) else groups
        if not isinstance(groups, list):
            raise LoginFailed(
                f"the claim {self.settings.oidc_groups_claim} (oidc_groups_claim) is not a list"
            )
        return User(name, tuple(group for group in groups[:MAX_GROUPS] if isinstance(group, str)))

    def _provider(self) -> dict[str, Any]:
        """Return the provider's metadata (OpenID Connect Discovery 1.0, 4)."""
        with self._lock:
            if self._metadata is None or time.monotonic() > self._metadata[0] + METADATA_SECONDS:
                issuer = str(self.settings.oidc_issuer)
                metadata = self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                if metadata.get("issuer") != issuer:
                    raise LoginFailed("the provider's metadata name another issuer than oidc_issuer")
                for name in ENDPOINTS:
                    if not is_confidential(str(metadata.get(name, ""))):
                        raise LoginFailed(f"the provider's {name} is missing, or not https")
                self._metadata = time.monotonic(), metadata
            return self._metadata[1]

    def _key_set(self, *, other_than: "KeySet | None" = None) -> "KeySet":
        """Return the provider's keys; fetch them again if they are those given, unless that was done just now."""
        address = self._provider()["jwks_uri"]
        with self._lock:
            now = time.monotonic()
            expired = self._keys is None or now > self._keys[0] + METADATA_SECONDS
            renew = (
                self._keys is not None and self._keys[1] is other_than and now > self._renewed + KEYS_SECONDS
            )
            if expired or renew:
                self._keys = now, usable_keys(self._fetch(address))
                self._renewed = now if renew else self._renewed  # last: what failed is tried again
            assert self._keys is not None
            return self._keys[1]

    def _fetch(self, address: str) -> dict[str, Any]:
        from requests import RequestException, Session

        if time.monotonic() < self._down_until:  # else everyone who logs in would occupy a thread
            raise LoginFailed("the provider does not answer")
        try:
            with limit_answers(Session()) as session:
                answer = session.get(address, timeout=SECONDS, allow_redirects=False)
                answer.raise_for_status()
                content = answer.json()
        except (RequestException, ValueError) as error:
            self._down_until = time.monotonic() + DOWN_SECONDS
            raise LoginFailed(f"the provider does not answer: {type(error).__name__}") from error
        if not isinstance(content, dict):
            raise LoginFailed("the provider does not answer with a JSON object")
        return content

    def _session(self, redirect_uri: str) -> "OAuth2Session":
        from authlib.integrations.requests_client import OAuth2Session

        secret = _read_secret(self.settings)
        session = OAuth2Session(
            self.settings.oidc_client_id,
            secret,
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
            scope=" ".join(self.settings.oidc_scopes),
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
        )
        return limit_answers(session)


def limit_answers(session: AnySession) -> AnySession:
    """Let `session` read answers of at most 1 MiB and follow no redirect, and return it."""
    session.stream = True  # so that `_read_answer` reads first
    session.hooks["response"].append(_read_answer)
    return session


def _read_answer(response: "Response", **_: Any) -> None:
    """Read the answer to a request; raises RequestException if it is too large, or a redirect."""
    from requests import RequestException

    content = b""
    with response:
        for piece in response.iter_content(PIECE):
            content += piece
            if len(content) > MAX_BYTES or response.is_redirect:
                break
    if len(content) > MAX_BYTES or response.is_redirect:
        raise RequestException("the answer is a redirect, or too large", response=response)
    response._content = content


def usable_keys(published: dict[str, Any]) -> "KeySet":
    """Return the keys of a provider (RFC 7517), without those of kinds that are not known here.

    Raises LoginFailed if none is left.
    """
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry, KeySet

    listed = published.get("keys")
    keys = []
    for key in listed if isinstance(listed, list) else []:
        with suppress(JoseError, ValueError, TypeError, KeyError, AttributeError):
            keys.append(JWKRegistry.import_key(key))
    if not keys:
        raise LoginFailed("the provider publishes no key that can be read (jwks_uri)")
    return KeySet(keys)


def is_confidential(address: str) -> bool:
    """Return True if `address` is https, or http on this machine."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    )


def check_settings(settings: Settings) -> None:
    """Raise InvalidInput if users are to log in, and could not with these settings."""
    if not settings.oidc_issuer:
        return
    if find_spec("authlib") is None or find_spec("requests") is None:
        raise InvalidInput(f"oidc_issuer needs the extra oidc: {install_command('oidc')}")
    if not is_confidential(settings.oidc_issuer):
        raise InvalidInput("oidc_issuer must be https, except on this machine")
    if not settings.oidc_client_id:
        raise InvalidInput("oidc_client_id is needed with oidc_issuer")
    if "openid" not in settings.oidc_scopes:
        raise InvalidInput("oidc_scopes must contain openid")
    _read_secret(settings)


def _read_secret(settings: Settings) -> str | None:
    file = settings.oidc_client_secret_file
    return read_password(file, "oidc_client_secret_file").strip() or None if file else None
