"""Requests that are repeated while they may succeed; tells an item that fails from an archive that fails."""

import time
from collections.abc import Callable
from threading import Event, Lock
from typing import TypeVar

import requests

from cbir.errors import ArchiveFailed
from indexer.dicomweb.archive_items import ArchiveDenied, ItemRefused
from indexer.dicomweb.archive_session import AnswerTooLarge

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
