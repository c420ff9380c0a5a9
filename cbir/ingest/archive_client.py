"""DICOMweb client (PS3.18) for rendered images, metadata and storing reports.

Uses the standard library only, so that thumbnails need no extra. `indexer.dicomweb` retrieves images.
"""

import base64
import json
import os
import re
import secrets
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

from cbir.errors import ArchiveFailed, InvalidInput
from cbir.store.external_links import rendered_url, resource_url
from cbir.system.addresses import is_private_link, origin_of

USER, PASSWORD, TOKEN = "CBIR_DICOMWEB_USER", "CBIR_DICOMWEB_PASSWORD", "CBIR_DICOMWEB_TOKEN"
SECONDS = 10.0  # for a whole response
MAX_BYTES = 16 * 2**20
CHUNK_BYTES = 64 * 2**10
DICOM_JSON = "application/dicom+json"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuse redirects: credentials go only to the configured URL."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class ArchiveClient:
    """Client of the archive at `url`, without /studies. Thread-safe. Every method raises ArchiveFailed.

    Basic credentials come from CBIR_DICOMWEB_USER and CBIR_DICOMWEB_PASSWORD, a bearer token from
    CBIR_DICOMWEB_TOKEN; raises InvalidInput if both are set, or if they would be sent in the clear.
    """

    def __init__(self, url: str, seconds: float = SECONDS) -> None:
        self.url = url
        self.seconds = seconds
        self._headers = authorization_header()
        if self._headers:
            require_private_link(url)
        # no proxy from the environment
        self._opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))

    def rendered(self, study: str, series: str, instance: str, frame: int | None, side: int) -> bytes:
        """Retrieve an image as JPEG (PS3.18, 10.4).

        Parameters
        ----------
        study, series, instance : str
            UIDs of the image.
        frame : int, optional
            Number of the frame, from 1.
        side : int
            Requested maximum width and height (10.4.1.1.5), which an archive may ignore.
        """
        url = rendered_url(self.url, study, series, instance, frame)
        return self._request(f"{url}?viewport={side},{side}", "image/jpeg")

    def metadata(self, study: str, series: str, instance: str) -> dict[str, Any]:
        """Retrieve the attributes of an instance in the DICOM JSON model (annex F), without bulk data.

        `study`, `series` and `instance` are its UIDs.
        """
        url = resource_url(self.url, study, series, instance) + "/metadata"
        content = self._request(url, DICOM_JSON)
        with suppress(ValueError, LookupError, TypeError):
            first = json.loads(content)[0]
            if isinstance(first, dict):
                return first
        raise ArchiveFailed(f"{self.url} returns no metadata for instance {instance}", answered=True)

    def search_one(self) -> None:
        """Search for any one study (QIDO-RS, 10.6), to see whether the archive answers."""
        self._request(f"{self.url}/studies?limit=1", DICOM_JSON)

    def store(self, data: bytes) -> None:
        """Store a DICOM file by STOW-RS (10.5); return when the archive confirms it."""
        boundary = secrets.token_hex(16)
        body = f"--{boundary}\r\nContent-Type: application/dicom\r\n\r\n".encode() + data
        body += f"\r\n--{boundary}--\r\n".encode()
        content_type = f'multipart/related; type="application/dicom"; boundary={boundary}'
        response = self._request(f"{self.url}/studies", DICOM_JSON, body, {"Content-Type": content_type})
        try:
            failed = json.loads(response).get("00081198", {}).get("Value", [])
        except (ValueError, AttributeError):
            raise ArchiveFailed(
                f"{self.url} does not confirm that it stored the object", answered=True
            ) from None
        if failed:
            raise ArchiveFailed(f"{self.url} did not store the object: {_reason(failed)}", answered=True)

    def _request(
        self, url: str, accept: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> bytes:
        request = urllib.request.Request(url, body, self._headers | {"Accept": accept} | (headers or {}))
        deadline = time.monotonic() + self.seconds
        try:
            with self._opener.open(request, timeout=self.seconds) as response:
                return _read_limited(response, deadline)
        except urllib.error.HTTPError as error:
            error.close()
            if location := error.headers.get("Location"):
                target = origin_of(location, url)
                raise ArchiveFailed(redirect_message(self.url, target), answered=True) from None
            raise ArchiveFailed(f"the archive at {self.url} answered {error.code}", answered=True) from None
        except OverflowError:
            raise ArchiveFailed(
                f"the archive at {self.url} sends more than {MAX_BYTES} bytes", answered=True
            ) from None
        except (OSError, ValueError, urllib.error.URLError) as error:
            problem = "took too long" if isinstance(error, TimeoutError) else "does not answer"
            raise ArchiveFailed(f"the archive at {self.url} {problem}") from None
        except Exception:  # http.client has its own errors for answers that are not HTTP
            raise ArchiveFailed(f"the server at {self.url} is not a DICOMweb archive") from None


def redirect_message(url: str, target: str) -> str:
    """Return the message for an archive at `url` that redirects to the server `target`."""
    return (
        f"the archive at {url} redirects to {target or 'what is no http URL'}, which is not followed, because "
        "credentials are for the configured server only; if that server is the right one, configure that address"
    )


def _read_limited(response: Any, deadline: float) -> bytes:
    parts, size = [], 0
    while part := response.read1(CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise OverflowError
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)


def authorization_header() -> dict[str, str]:
    """Return the Authorization header of the credentials in the environment, empty without any.

    Raises InvalidInput if there are both basic credentials and a token, or the token is malformed.
    """
    user, token = os.environ.get(USER), os.environ.get(TOKEN)
    if user and token:
        raise InvalidInput(f"{USER} and {TOKEN} are both set; set only one of them")
    if token:
        if not re.fullmatch("[!-~]+", token):
            raise InvalidInput(
                f"{TOKEN} is not valid: a token consists of printable ASCII characters without spaces"
            )
        return {"Authorization": f"Bearer {token}"}
    if user:
        pair = f"{user}:{os.environ.get(PASSWORD, '')}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def require_private_link(url: str) -> None:
    """Raise InvalidInput if credentials for an archive at `url` could be read on the network."""
    if not is_private_link(url):
        raise InvalidInput(
            f"the archive's address {url} must begin with https://, because credentials are sent there; without "
            f"{USER}, {TOKEN} and a header Authorization, http:// is allowed"
        )


def _reason(failed: Any) -> str:
    """Return the failure reason of the first item (PS3.18, I.2.2)."""
    try:
        return f"failure reason {int(failed[0]['00081197']['Value'][0]):04X}"
    except (LookupError, TypeError, ValueError):
        return "no reason given"
