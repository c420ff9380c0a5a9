"""Connections to an archive: credentials from the environment, TLS, and no more of an answer than is taken."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.auth import HTTPBasicAuth

from cbir.errors import InvalidInput

PIECE = 2**20
HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*([ -~]*)")
SENDABLE = re.compile(r"[!-~]+")
USER, PASSWORD, TOKEN = "CBIR_DICOMWEB_USER", "CBIR_DICOMWEB_PASSWORD", "CBIR_DICOMWEB_TOKEN"


class BoundedSession(requests.Session):
    """A session whose answers are read whole, but raise ConnectionError beyond `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self.most_bytes = most_bytes

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """As of the base class."""
        response = super().send(request, **(options | {"stream": True}))
        if response.is_redirect:
            return response
        parts, size = [], 0
        with response:
            for part in response.iter_content(PIECE):
                parts.append(part)
                size += len(part)
                if size > self.most_bytes:
                    raise requests.ConnectionError("the answer is larger than is taken")
        response._content = b"".join(parts)
        return response


def connect(
    headers: Sequence[str], most_bytes: int, authority: Path | None = None, certificate: Path | None = None
) -> BoundedSession:
    """A session with further headers ("Name: value").

    authority: PEM file of who signs the archive's certificate. certificate: PEM file of ours with its key. Basic
    credentials come from CBIR_DICOMWEB_USER and CBIR_DICOMWEB_PASSWORD, a bearer token from CBIR_DICOMWEB_TOKEN.
    Raises InvalidInput.
    """
    session = BoundedSession(most_bytes)
    session.trust_env = False  # no credentials from ~/.netrc, and no proxy that nobody named
    for file in (authority, certificate):
        if file is not None and not file.is_file():
            raise InvalidInput(f"there is no file {file}")
    session.verify = str(authority) if authority else True
    session.cert = str(certificate) if certificate else None
    for text in headers:
        found = HEADER.fullmatch(text)
        if not found:
            raise InvalidInput("--header must be of the form 'Name: value'")  # it may hold a secret
        session.headers[found.group(1)] = found.group(2)
    user, token = os.environ.get(USER), os.environ.get(TOKEN)
    if user and token:
        raise InvalidInput(f"{USER} and {TOKEN} are both set; an archive takes one of them")
    if user:  # as UTF-8 (RFC 7617, 2.1); as text only Latin-1 could be sent
        session.auth = HTTPBasicAuth(user.encode(), os.environ.get(PASSWORD, "").encode())
    if token:
        if not SENDABLE.fullmatch(token):
            raise InvalidInput(f"{TOKEN} holds a space, a line break or another character that no token has")
        session.headers["Authorization"] = f"Bearer {token}"
    return session


def check_url(url: str) -> str:
    """The URL without a slash at its end; raises InvalidInput for one that cannot be asked."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"{url} is no http or https address, for instance http://localhost:8042/dicom-web")
    if parts.username or parts.password:
        raise InvalidInput(
            f"credentials do not belong into the address; set {USER} and {PASSWORD}, or {TOKEN}"
        )
    if parts.query or parts.fragment:
        raise InvalidInput("the address of an archive has no ? and no #; name the part before them")
    return url.rstrip("/")
