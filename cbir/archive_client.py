"""An archive over DICOMweb (PS3.18), as far as answers need it: rendered images, metadata, a place for reports.

With the standard library alone, so that the service needs no extra for its thumbnails. Bringing images in is
`indexer.dicomweb`'s.
"""

import base64
import json
import os
import secrets
import time
import urllib.error
import urllib.request
from typing import Any

from cbir.errors import ArchiveFailed, InvalidInput
from cbir.external_links import rendered_url, resource_url

USER, PASSWORD, TOKEN = "CBIR_DICOMWEB_USER", "CBIR_DICOMWEB_PASSWORD", "CBIR_DICOMWEB_TOKEN"
SECONDS = 10.0  # for a whole answer
MOST_BYTES = 16 * 2**20
PIECE = 64 * 2**10
DICOM_JSON = "application/dicom+json"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Credentials go to the address that the operator named, and nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class ArchiveClient:
    """The archive at `url`, before /studies. Thread-safe. Every method raises ArchiveFailed.

    Basic credentials come from CBIR_DICOMWEB_USER and CBIR_DICOMWEB_PASSWORD, a bearer token from
    CBIR_DICOMWEB_TOKEN; raises InvalidInput where both are set.
    """

    def __init__(self, url: str, seconds: float = SECONDS) -> None:
        self.url = url
        self.seconds = seconds
        self._headers = _credentials()
        # No proxy that nobody named.
        self._opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))

    def rendered(self, study: str, series: str, instance: str, frame: int | None, side: int) -> bytes:
        """A JPEG of an image that fits into `side` x `side` pixels where the archive heeds that (10.4.1.1.5)."""
        address = rendered_url(self.url, study, series, instance, frame)
        return self._ask(f"{address}?viewport={side},{side}", "image/jpeg")

    def metadata(self, study: str, series: str, instance: str) -> dict[str, Any]:
        """The attributes of an instance in the DICOM JSON model (annex F), but for bulk data."""
        address = resource_url(self.url, study, series, instance) + "/metadata"
        try:
            found = json.loads(self._ask(address, DICOM_JSON))
            first = found[0]
        except (ValueError, LookupError, TypeError):
            raise ArchiveFailed(
                f"{self.url} gives no metadata of instance {instance}", answered=True
            ) from None
        if not isinstance(first, dict):
            raise ArchiveFailed(f"{self.url} gives no metadata of instance {instance}", answered=True)
        return first

    def store(self, data: bytes) -> None:
        """Add a DICOM file by STOW-RS (10.5); returns once the archive says that it has it."""
        edge = secrets.token_hex(16)
        body = f"--{edge}\r\nContent-Type: application/dicom\r\n\r\n".encode() + data
        kind = f'multipart/related; type="application/dicom"; boundary={edge}'
        answer = self._ask(
            f"{self.url}/studies", DICOM_JSON, body + f"\r\n--{edge}--\r\n".encode(), {"Content-Type": kind}
        )
        try:
            told = json.loads(answer)
            failed = told.get("00081198", {}).get("Value", [])
        except (ValueError, AttributeError):
            raise ArchiveFailed(
                f"{self.url} does not say whether it stored the object", answered=True
            ) from None
        if failed:
            raise ArchiveFailed(f"{self.url} did not store the object: {_reason(failed)}", answered=True)

    def _ask(
        self, address: str, accept: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> bytes:
        request = urllib.request.Request(address, body, self._headers | {"Accept": accept} | (headers or {}))
        until = time.monotonic() + self.seconds
        try:
            with self._opener.open(request, timeout=self.seconds) as answer:
                return _read(answer, until)
        except urllib.error.HTTPError as error:
            error.close()
            raise ArchiveFailed(f"the archive at {self.url} answered {error.code}", answered=True) from None
        except OverflowError:
            raise ArchiveFailed(
                f"the archive at {self.url} sends more than {MOST_BYTES} bytes", answered=True
            ) from None
        except (OSError, ValueError, urllib.error.URLError) as error:
            why = "took too long" if isinstance(error, TimeoutError) else "does not answer"
            raise ArchiveFailed(f"the archive at {self.url} {why}") from None
        except Exception:  # what answers is no HTTP: http.client has its own errors
            raise ArchiveFailed(f"what answers at {self.url} is no archive") from None


def _read(answer: Any, until: float) -> bytes:
    parts, size = [], 0
    while part := answer.read1(PIECE):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise OverflowError
        if time.monotonic() > until:
            raise TimeoutError
    return b"".join(parts)


def _credentials() -> dict[str, str]:
    user, token = os.environ.get(USER), os.environ.get(TOKEN)
    if user and token:
        raise InvalidInput(f"{USER} and {TOKEN} are both set; an archive takes one of them")
    if token:
        if not all("!" <= sign <= "~" for sign in token):
            raise InvalidInput(f"{TOKEN} cannot be sent: a token is of printable ASCII, without spaces")
        return {"Authorization": f"Bearer {token}"}
    if user:
        pair = f"{user}:{os.environ.get(PASSWORD, '')}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _reason(failed: Any) -> str:
    """The failure reason of the first item (PS3.18, I.2.2)."""
    try:
        return f"failure reason {int(failed[0]['00081197']['Value'][0]):04X}"
    except (LookupError, TypeError, ValueError):
        return "it gives no reason"
