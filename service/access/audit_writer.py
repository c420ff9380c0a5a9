"""Write a line of each request to the audit log, in a file or a database."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from cbir.errors import CbirError

MAX_IMAGES = 50  # listed in a line; image_count counts them all

log = logging.getLogger(__name__)


class AuditWriter(ABC):
    """Writer of an audit log. Thread-safe."""

    _failed = False

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
        if sent:
            fields["sent"] = list(sent)
        try:
            self._add(fields)
        except (OSError, CbirError) as error:
            self._failed = True
            log.error("the audit log cannot be written: %s", error)
            return False
        self._failed = False
        return True

    def is_writable(self) -> bool:
        """Return False if the last line could not be written, and another one cannot be either."""
        return not self._failed or self.write(None, "", "audit", (), 200)


def time_of_line() -> str:
    """Return the present time as lines have it, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
