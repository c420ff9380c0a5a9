"""HTTP sessions for an archive: credentials from the environment, TLS, answers of bounded size."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import requests

from cbir.errors import ArchiveFailed, InvalidInput
from cbir.ingest.archive_client import authorization_header, redirect_message, require_private_link
from cbir.system.addresses import origin_of, validate_http_url

READ_BYTES = 2**20
MAX_REDIRECTS = 5
HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~]*)")


class AnswerTooLarge(requests.ConnectionError):
    """An answer has more bytes than a session reads."""


class BoundedSession(requests.Session):
    """Session that reads answers whole, and raises AnswerTooLarge beyond `max_bytes`.

    Follows redirects within the same scheme, host and port only: headers, credentials and the client's certificate
    are for the server that the user named.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.max_bytes = max_bytes
        self.max_redirects = MAX_REDIRECTS

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Return the URL that a response redirects to; raise ArchiveFailed if it is another server's."""
        target = super().get_redirect_target(resp)
        if target is None:
            return None
        target_origin = origin_of(target, resp.url)
        if target_origin != origin_of(resp.url):
            resp.close()
            raise ArchiveFailed(redirect_message(origin_of(resp.url), target_origin))
        return target

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send like the base class, within the bound; raise InvalidInput for credentials in the clear."""
        if "Authorization" in request.headers:
            require_private_link(origin_of(request.url or ""))
        response = super().send(request, **(options | {"stream": True}))
        if response.is_redirect:
            return response
        parts, size = [], 0
        with response:
            for part in response.iter_content(READ_BYTES):
                parts.append(part)
                size += len(part)
                if size > self.max_bytes:
                    raise AnswerTooLarge("the answer is larger than the limit")
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
        session.headers[match.group(1)] = match.group(2).strip()
    session.headers.update(authorization_header())
    return session


def check_url(url: str) -> str:
    """Return the URL without a trailing slash; raise InvalidInput if it is not an archive's address."""
    try:
        return validate_http_url(url)
    except ValueError as error:
        raise InvalidInput(str(error)) from error
