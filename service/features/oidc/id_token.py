"""Validation of ID tokens (OpenID Connect Core 1.0, 3.1.3.7), with what is wrong in words."""

import math
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
MAX_SECONDS = 1e12
CLOCK_SECONDS = 60  # by which the provider's clock may differ
FAULTS = {  # by claim
    "iss": "names another issuer than oidc_issuer (claim iss)",
    "aud": "is for another client than oidc_client_id (claim aud)",
    "azp": "was issued to another client than oidc_client_id (claim azp)",
    "nonce": "belongs to another login (claim nonce)",
    "at_hash": "does not belong to the access token (claim at_hash)",
}


class TokenInvalid(ValueError):
    """The ID token is not valid. The text says why, and names no person and no secret."""


class SignatureInvalid(TokenInvalid):
    """No key that is known has signed the token; the provider may have new ones."""


def valid_claims(
    text: str, keys: "KeySet", *, issuer: str, client_id: str, nonce: str, access_token: str | None
) -> dict[str, Any]:
    """Return the claims of an ID token.

    Parameters
    ----------
    text : str
        The token.
    keys : KeySet
        Published keys of the provider.
    issuer, client_id, nonce : str
        Values that the token must have.
    access_token : str or None
        What came with it; compared with its at_hash.

    Raises
    ------
    SignatureInvalid
        If none of the keys has signed it.
    TokenInvalid
        If a claim is wrong or missing, or its time is over.
    """
    from authlib.oidc.core import CodeIDToken
    from joserfc import jwt
    from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError, KeyParameterError

    try:
        token = jwt.decode(text, keys, algorithms=ALGORITHMS)
    except (BadSignatureError, InvalidKeyIdError, KeyParameterError) as error:
        raise SignatureInvalid("is not signed by a key that the provider publishes (jwks_uri)") from error
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise TokenInvalid(f"cannot be read: {type(error).__name__}") from error
    _check_clock(token.claims, time.time())
    options = {
        "iss": {"essential": True, "values": [issuer]},
        "aud": {"essential": True, "values": [client_id]},
    }
    params = {"nonce": nonce, "client_id": client_id}
    if access_token is not None:
        params["access_token"] = access_token
    try:
        claims = CodeIDToken(token.claims, token.header, options, params)
        claims.validate(leeway=CLOCK_SECONDS)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise TokenInvalid(_fault(error, token.claims)) from error
    return dict(claims)


def _check_clock(claims: dict[str, Any], now: float) -> None:
    """Raise TokenInvalid, with the difference of the clocks, for a token that is of the future or the past.

    A token is issued when it is fetched, so its iat is the provider's clock.
    """
    for name in ("iat", "nbf"):
        ahead = _seconds(claims.get(name)) - now
        if ahead > CLOCK_SECONDS:
            raise TokenInvalid(f"is of the future (claim {name}): {_difference(ahead, 'ahead of')}")
    expired = now - _seconds(claims.get("exp"))
    if expired > CLOCK_SECONDS:
        behind = now - _seconds(claims.get("iat"))
        clocks = f": {_difference(behind, 'behind')}" if behind > CLOCK_SECONDS else ""
        raise TokenInvalid(f"expired {expired:.0f} seconds ago (claim exp){clocks}")


def _seconds(value: Any) -> float:
    """Return a time in seconds since 1970; not a number for anything else, which is checked elsewhere."""
    is_time = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_SECONDS
    return float(value) if is_time else math.nan


def _difference(seconds: float, where: str) -> str:
    return (
        f"the provider's clock is {seconds:.0f} seconds {where} this machine's, and {CLOCK_SECONDS} are allowed; "
        "set both clocks"
    )


def _fault(error: Exception, claims: dict[str, Any]) -> str:
    name = str(getattr(error, "claim", None) or "")
    if not name:
        return f"cannot be read: {type(error).__name__}"
    if name not in claims:
        return f"has no claim {name}"
    return FAULTS.get(name, f"has a wrong claim {name}")
