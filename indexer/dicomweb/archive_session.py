"""HTTP sessions for an archive: credentials from the environment, TLS, answers of bounded size."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.auth import HTTPBasicAuth

from cbir.errors import InvalidInput

READ_BYTES = 2**20
HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*([ -~]*)")
TOKEN_TEXT = re.compile(r"[!-~]+")
USER, PASSWORD, TOKEN = "CBIR_DICOMWEB_USER", "CBIR_DICOMWEB_PASSWORD", "CBIR_DICOMWEB_TOKEN"


class BoundedSession(requests.Session):
    """Session that reads answers whole, and raises ConnectionError beyond `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.max_bytes = max_bytes

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send like the base class, within the bound."""
        response = super().send(request, **(options | {"stream": True}))
        if response.is_redirect:
            return response
        parts, size = [], 0
        with response:
            for part in response.iter_content(READ_BYTES):
                parts.append(part)
                size += len(part)
                if size > self.max_bytes:
                    raise requests.ConnectionError("the answer is larger than the limit")
        response._content = b"".join(parts)
        return response


def open_session(
    headers: Sequence[str], max_bytes: int, authority: Path | None = None, certificate: Path | None = None
) -> BoundedSession:
    """Create a session for an archive.

    Basic credentials come from CBIR_DICOMWEB_USER and CBIR_DICOMWEB_PASSWORD, a bearer token from
    CBIR_DICOMWEB_TOKEN.

    Parameters
    ----------
    headers : sequence of str
        Further headers, "Name: value".
    max_bytes : int
        Largest answer.
    authority : Path, optional
        PEM file of the authority that signed the archive's certificate.
    certificate : Path, optional
        PEM file with the client's certificate and key.

    Raises
    ------
    InvalidInput
        If a file is missing, or a header or credential is malformed.
    """
    session = BoundedSession(max_bytes)
    session.trust_env = False  # no credentials from ~/.netrc, no proxy from the environment
    for file in (authority, certificate):
        if file is not None and not file.is_file():
            raise InvalidInput(f"there is no file {file}")
    session.verify = str(authority) if authority else True
    session.cert = str(certificate) if certificate else None
    for text in headers:
        match = HEADER.fullmatch(text)
        if not match:
            raise InvalidInput("--header must be of the form 'Name: value'")  # it may hold a secret
        session.headers[match.group(1)] = match.group(2)
    user, token = os.environ.get(USER), os.environ.get(TOKEN)
    if user and token:
        raise InvalidInput(f"{USER} and {TOKEN} are both set; unset one of them")
    if user:  # as UTF-8 (RFC 7617, 2.1); text would be sent as Latin-1
        session.auth = HTTPBasicAuth(user.encode(), os.environ.get(PASSWORD, "").encode())
    if token:
        if not TOKEN_TEXT.fullmatch(token):
            raise InvalidInput(f"{TOKEN} holds a space, a line break or another character that no token has")
        session.headers["Authorization"] = f"Bearer {token}"
    return session


def check_url(url: str) -> str:
    """Return the URL without a trailing slash. Raises InvalidInput for one that is no archive's address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(
            f"{url} is not an http or https address, for instance http://localhost:8042/dicom-web"
        )
    if parts.username or parts.password:
        raise InvalidInput(f"credentials do not belong in the address; set {USER} and {PASSWORD}, or {TOKEN}")
    if parts.query or parts.fragment:
        raise InvalidInput("the address of an archive has no ? and no #; name the part before them")
    return url.rstrip("/")
