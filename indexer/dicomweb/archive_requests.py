"""Requests of an archive: sessions, repetitions, and lists page by page.

Requests are repeated while they may succeed; that tells an item that fails from an archive that fails. A page that
fails is halved until the one result that fails is found.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any, TypeVar

import requests

from cbir.errors import ArchiveFailed, InvalidInput
from cbir.ingest.archive_client import authorization_header, redirect_message, require_private_link
from cbir.system.addresses import origin_of, validate_http_url
from indexer.dicomweb.archive_items import ArchiveDenied, ItemRefused

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


TRIES = 4
PAUSE_SECONDS = 1.0  # before the second try, and twice as long before each further one
LONGEST_PAUSE = 16  # times PAUSE_SECONDS, between two questions to an archive that is silent
SILENT = 120  # times PAUSE_SECONDS, then the archive has failed
Answer = TypeVar("Answer")


class RepeatedRequests:
    """Makes requests of an archive; while it is silent, as when it restarts, all of them wait. Thread-safe.

    Parameters
    ----------
    problem : callable
        Asks the archive a cheap question; returns "" if it answers, else why it does not. Raises ArchiveDenied.

    Attributes
    ----------
    stop : Event
        Ends all pauses, with ArchiveFailed.
    report : callable
        Called with a line when the archive falls silent, and when it answers again.
    """

    def __init__(self, problem: Callable[[], str]) -> None:
        self.problem = problem
        self.stop = Event()
        self.report: Callable[[str], None] = lambda line: None
        self._lock = Lock()
        self._silent_since: float | None = None

    def __call__(self, request: Callable[[], Answer], tries: int = TRIES) -> Answer:
        """Return the archive's answer.

        Raises ItemRefused if the archive answers other questions, ArchiveDenied, and ArchiveFailed if it does not.
        """
        reason = ""
        for attempt in range(tries):
            if attempt:
                self._pause(PAUSE_SECONDS * 2 ** (attempt - 1))
            try:
                answer = request()
            except AnswerTooLarge:
                raise ItemRefused("the answer is larger than the limit", may_be_split=True) from None
            except requests.HTTPError as error:
                reason = _status_reason(error)
            except (requests.JSONDecodeError, KeyError, TypeError) as error:  # cut short, or not JSON
                reason = f"its answer cannot be understood ({type(error).__name__})"
            except requests.RequestException as error:
                reason = connection_reason(error)
            except ValueError as error:
                reason = f"its answer cannot be understood ({type(error).__name__})"
            else:
                self._silent_since = None  # a later silence is a new one
                return answer
            self._wait_for_archive()
        raise ItemRefused(reason, may_be_split=True)

    def _wait_for_archive(self) -> None:
        """Return once the archive answers a cheap question. Raises ArchiveFailed if it stays silent."""
        with self._lock:  # the other threads wait here, and then ask for themselves
            pause = 1
            while problem := self.problem():
                now = time.monotonic()
                if self._silent_since is None:
                    self._silent_since = now
                    self.report(f"the archive does not answer: {problem}; waiting for it")
                if now - self._silent_since > SILENT * PAUSE_SECONDS:
                    raise ArchiveFailed(
                        f"the archive stopped answering: {problem}; what was fetched is in the collection, run the "
                        "same command again"
                    )
                self._pause(pause * PAUSE_SECONDS)
                pause = min(2 * pause, LONGEST_PAUSE)
            if self._silent_since is not None:
                self._silent_since = None
                self.report("the archive answers again")

    def _pause(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise ArchiveFailed("interrupted while the archive did not answer")


def _status_reason(error: requests.HTTPError) -> str:
    """Return the reason of an answer that may be another one the next time; raises for one that stays."""
    status = error.response.status_code if error.response is not None else 0
    if status in (401, 403):
        raise denied(f"the archive answered {status}") from None
    reason = f"the archive answered {status}"
    if status in (404, 410):
        raise ItemRefused(reason, is_missing=True) from None
    if status < 500 and status not in (408, 429):
        raise ItemRefused(reason) from None
    return reason


def denied(answer: str) -> ArchiveDenied:
    """Return the failure for an answer 401 or 403."""
    return ArchiveDenied(
        f"{answer}: credentials are needed (CBIR_DICOMWEB_USER and CBIR_DICOMWEB_PASSWORD, or "
        "CBIR_DICOMWEB_TOKEN), or these are not sufficient"
    )


def connection_reason(error: requests.RequestException) -> str:
    """Say in a few words why no answer came."""
    if isinstance(error, requests.exceptions.SSLError):
        return (
            "its certificate is not trusted, or it does not use TLS (--authority names the signing authority)"
        )
    if isinstance(error, requests.TooManyRedirects):
        return "it redirects without end"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, AnswerTooLarge):
        return "an answer is larger than the limit"
    return "the connection was refused or cut"


PAGE = 100  # results of one query
MOST_GAPS = 100  # in a row: then the rest of the list is given up
QidoResult = dict[str, dict[str, Any]]
Gap = tuple[int, str]  # place in the list, from 1, and why it was not answered


def all_pages(
    repeated: RepeatedRequests, search: Callable[..., list[QidoResult]], gaps: list[Gap]
) -> Iterator[list[QidoResult]]:
    """Yield pages of results until the caller stops, or a page is empty.

    Parameters
    ----------
    repeated : RepeatedRequests
        Makes the requests.
    search : callable
        Queries the archive, with `limit` and `offset`.
    gaps : list
        Gets the places of results that the archive cannot list.

    Raises
    ------
    ItemRefused
        If the archive refuses the whole list, or 100 results in a row.
    """
    offset, size, in_a_row, is_split = 0, PAGE, 0, False
    while True:
        tries = TRIES if not is_split else 2 if size == 1 else 1
        try:
            results = repeated(partial(search, limit=size, offset=offset), tries)
        except ItemRefused as refused:
            if refused.is_missing and offset:  # some archives have no page after the last
                return
            if not refused.may_be_split or in_a_row == MOST_GAPS:
                raise
            is_split = True
            if size > 1:
                size //= 2
                continue
            in_a_row += 1
            offset += 1
            gaps.append((offset, str(refused)))
            continue
        if not results:
            return
        yield results
        offset, size, in_a_row = offset + len(results), min(2 * size, PAGE), 0


def first_value(result: QidoResult, tag: str) -> str:
    """Return the first value of an attribute in the DICOM JSON model (PS3.18, F.2); "" if there is none."""
    try:
        return str(result[tag]["Value"][0]).strip()
    except (KeyError, IndexError, TypeError):
        return ""
