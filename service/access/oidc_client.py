"""OpenID Connect: discovery, the authorization code flow with PKCE, and validation of ID tokens."""

import logging
import time
from functools import partial
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cbir.errors import InvalidInput
from cbir.extras import install_command
from cbir.settings import Settings
from service.access.pending_logins import PendingLogins
from service.access.security import is_loopback
from service.access.sessions import User
from service.state.database import StateDatabase
from service.state.signing_keys import signing_key

if TYPE_CHECKING:
    from authlib.integrations.requests_client import OAuth2Session
    from joserfc.jwk import KeySet

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
SECONDS = 10  # for each answer of the provider
METADATA_SECONDS = 3600  # metadata and keys are fetched again
KEYS_SECONDS = 60  # at least, between two fetches because of an unknown key
DOWN_SECONDS = 10  # until a provider that does not answer is asked again
CLOCK_SECONDS = 60  # by which the provider's clock may differ
MAX_GROUPS = 1000

log = logging.getLogger(__name__)


class LoginFailed(Exception):
    """The provider does not answer, or its answer is not valid. The text names no person and no secret."""


class LoginRejected(LoginFailed):
    """The provider does not accept the code, or the ID token is not valid: someone may be guessing."""


class OidcClient:
    """This service as a client of the OpenID Connect provider in `settings`. Thread-safe.

    The state database keeps the key of logins that have begun, so that they can end after a restart.
    """

    def __init__(self, settings: Settings, database: StateDatabase) -> None:
        self.settings = settings
        self._lock = Lock()
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None
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
        LoginRejected
            If the provider does not accept the code, or the token is not valid.
        LoginFailed
            If the provider does not answer, or the token lacks a claim.
        """
        from authlib.common.errors import AuthlibBaseError
        from requests import RequestException

        endpoint = self._provider()["token_endpoint"]
        try:
            with self._session(redirect_uri) as session:
                answer = session.fetch_token(endpoint, code=code, code_verifier=verifier, timeout=SECONDS)
        except AuthlibBaseError as error:
            raise LoginRejected(f"the provider did not accept the code: {type(error).__name__}") from error
        except (RequestException, ValueError) as error:
            raise LoginFailed(f"the provider did not exchange the code: {type(error).__name__}") from error
        return self._user(self._claims(answer, nonce))

    def _claims(self, answer: dict[str, Any], nonce: str) -> dict[str, Any]:
        """Return the claims of a valid ID token (OpenID Connect Core 1.0, 3.1.3.7)."""
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        text = str(answer.get("id_token", ""))
        options = {
            "iss": {"essential": True, "values": [self.settings.oidc_issuer]},
            "aud": {"essential": True, "values": [self.settings.oidc_client_id]},
        }
        params = {"nonce": nonce, "client_id": self.settings.oidc_client_id}
        if "access_token" in answer:
            params["access_token"] = answer["access_token"]
        try:
            try:
                token = jwt.decode(text, self._key_set(), algorithms=ALGORITHMS)
            except InvalidKeyIdError:  # the provider has new keys
                token = jwt.decode(text, self._key_set(KEYS_SECONDS), algorithms=ALGORITHMS)
            claims = CodeIDToken(token.claims, token.header, options, params)
            claims.validate(leeway=CLOCK_SECONDS)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise LoginRejected(f"the ID token is not valid: {type(error).__name__}") from error
        return dict(claims)

    def _user(self, claims: dict[str, Any]) -> User:
        name, groups = (
            claims.get(self.settings.oidc_user_claim),
            claims.get(self.settings.oidc_groups_claim, []),
        )
        if not isinstance(name, str):
            raise LoginFailed(f"the ID token has no claim {self.settings.oidc_user_claim} (oidc_user_claim)")
        groups = [groups] if isinstance(groups, str) else groups
        if not isinstance(groups, list):
            raise LoginFailed(
                f"the claim {self.settings.oidc_groups_claim} (oidc_groups_claim) is not a list"
            )
        return User(name.strip(), tuple(group for group in groups[:MAX_GROUPS] if isinstance(group, str)))

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

    def _key_set(self, max_age: float = METADATA_SECONDS) -> "KeySet":
        from joserfc.jwk import KeySet

        address = self._provider()["jwks_uri"]
        with self._lock:
            if self._keys is None or time.monotonic() > self._keys[0] + max_age:
                self._keys = time.monotonic(), KeySet.import_key_set(self._fetch(address))  # type: ignore[arg-type]
            return self._keys[1]

    def _fetch(self, address: str) -> dict[str, Any]:
        from requests import RequestException

        from service.access.bounded_session import bounded_session

        if time.monotonic() < self._down_until:  # else everyone who logs in would occupy a thread
            raise LoginFailed("the provider does not answer")
        try:
            with bounded_session() as session:
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

        from service.access.bounded_session import limit_answers

        secret = _read_secret(self.settings)
        session = OAuth2Session(
            self.settings.oidc_client_id,
            secret,
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
            scope=" ".join(self.settings.oidc_scopes),
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
        )
        limit_answers(session)
        return session


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
    """Raise InvalidInput if users could not log in with these settings."""
    if find_spec("authlib") is None or find_spec("requests") is None:
        raise InvalidInput(f"oidc_issuer needs the extra oidc: {install_command('oidc')}")
    if not is_confidential(str(settings.oidc_issuer)):
        raise InvalidInput("oidc_issuer must be https, except on this machine")
    if not settings.oidc_client_id:
        raise InvalidInput("oidc_client_id is needed with oidc_issuer")
    if "openid" not in settings.oidc_scopes:
        raise InvalidInput("oidc_scopes must contain openid")
    _read_secret(settings)


def _read_secret(settings: Settings) -> str | None:
    file = settings.oidc_client_secret_file
    try:
        return file.read_text(encoding="utf-8").strip() or None if file else None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"oidc_client_secret_file {file} cannot be read: {type(error).__name__}"
        ) from error
