"""Write a line of each request to the audit log, in a file or a database."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from cbir.errors import CbirError
from service.state.errors import StateUnavailable

CHECK = "audit"  # action of the line that tries whether lines can be written
MAX_IMAGES = 50  # listed in a line; image_count counts them all

log = logging.getLogger(__name__)


class AuditWriter(ABC):
    """Writer of an audit log. Thread-safe.

    failed: the last line could not be written. lost: lines of requests that could not be written since the start.
    """

    failed = False
    lost = 0
    _counting = Lock()

    @abstractmethod
    def open(self) -> None:
        """Raise InvalidInput or StateUnavailable if no line can be written."""

    @abstractmethod
    def close(self) -> None:
        """Close what `open` has opened."""

    @abstractmethod
    def _add(self, fields: dict[str, Any]) -> None:
        """Append a line with these fields; raises OSError and CbirError."""

    def write(
        self,
        token_id: str | None,
        address: str,
        action: str,
        images: Iterable[str],
        status: int,
        job: str | None = None,
        user: str | None = None,
        identifier: bool = False,
        changed_token: str | None = None,
        also_revoked: Sequence[str] = (),
        sent: Sequence[str] = (),
    ) -> bool:
        """Append a line; return False if that failed, which the service's own log reports.

        Parameters
        ----------
        token_id : str or None
            Id of the caller's token; None for a user, and for an unknown or missing token.
        address : str
            IP address of the caller.
        action : str
            Action of the request, as in `service.access.scopes`.
        images : iterable of str
            Ids of the images that the request was about.
        status : int
            HTTP status of the response.
        job : str, optional
            Name of the indexing job that the request was about.
        user : str, optional
            Name of the user, if the hospital's identity was used.
        identifier : bool
            Whether the request named a patient by identifier.
        changed_token : str, optional
            Id of the token that the request has created or revoked; other lines have no such field.
        also_revoked : sequence of str
            Ids of the tokens that were revoked because that one had made them; other lines have no such field.
        sent : sequence of str
            What the request let leave for other services; other lines have no such field.
        """
        ids = list(images)
        fields: dict[str, object] = {
            "time": time_of_line(),
            "token": token_id,
            "address": address,
            "action": action,
            "images": ids[:MAX_IMAGES],
            "job": job,
            "status": status,
            "user": user,
            "image_count": len(ids),
            "identifier": identifier,
        }
        if changed_token:
            fields["changed_token"] = changed_token
        if also_revoked:
            fields["also_revoked"] = list(also_revoked)
        if sent:
            fields["sent"] = list(sent)
        if self._try(fields):
            return True
        with self._counting:
            self.lost += 1
        return False

    def _try(self, fields: dict[str, Any]) -> bool:
        try:
            self._add(fields)
        except (OSError, CbirError) as error:
            self.failed = True
            log.error("the audit log cannot be written: %s", error)
            return False
        self.failed = False
        return True

    def is_writable(self) -> bool:
        """Return False if the last line could not be written, and another one cannot be either."""
        return not self.failed or self._try(line_of_check())

    def check(self) -> None:
        """Raise StateUnavailable if the next line could not be written; writes one only if the last one failed."""
        try:
            self._check_place()
        except (OSError, CbirError) as error:
            raise StateUnavailable(f"the audit log cannot be written: {error}") from error
        if not self.is_writable():
            raise StateUnavailable("the audit log cannot be written")

    @abstractmethod
    def _check_place(self) -> None:
        """Raise OSError or CbirError if the place of the lines cannot be written."""


def line_of_check() -> dict[str, Any]:
    """Return the fields of the line that tries whether lines can be written."""
    return {"time": time_of_line(), "action": CHECK, "images": [], "image_count": 0, "status": 200}


def time_of_line() -> str:
    """Return the present time as lines have it, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
