"""Append-only audit log of JSON lines: who did what, when."""

import json
import logging
import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from flask import g

from cbir.errors import InvalidInput

IMAGE_ID = re.compile(r"[0-9a-f]{32}(-[0-9]{1,9})?")

log = logging.getLogger(__name__)


class AuditLog:
    """Appends lines to a file and creates a new one when the file was moved away or deleted. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._file = -1
        self._torn = False  # the last line is incomplete: the next write starts a new line
        self.open()

    def open(self) -> None:
        """Open the file again; raise InvalidInput if it cannot be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InvalidInput(f"audit_log {self.path} cannot be written: {error.strerror}") from error
        self.close()
        self._file = file
        self._torn = _ends_in_partial_line(self.path)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def write(
        self,
        token_id: str | None,
        address: str,
        action: str,
        images: Iterable[str],
        status: int,
        job: str | None = None,
    ) -> None:
        """Append a line. A failure is reported in the service's own log and does not stop the service.

        Parameters
        ----------
        token_id : str or None
            Id of the caller's token; None for an unknown or missing token.
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
        """
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "token": token_id,
            "address": address,
            "action": action,
            "images": list(images),
            "job": job,
            "status": status,
        }
        text = (json.dumps(line) + "\n").encode()
        try:
            with self._lock:
                if self._was_moved():
                    self.open()
                written = os.write(self._file, b"\n" + text if self._torn else text)
                self._torn = written < len(text) + self._torn
            if self._torn:
                log.error("a line of the audit log %s was cut short; is the disk full?", self.path)
        except (OSError, InvalidInput) as error:
            log.error("the audit log cannot be written: %s", error)

    def _was_moved(self) -> bool:
        try:
            current, opened = self.path.stat(), os.fstat(self._file)
        except OSError:
            return True
        return (current.st_dev, current.st_ino) != (opened.st_dev, opened.st_ino)


def _ends_in_partial_line(path: Path) -> bool:
    """Return True if a file ends in the middle of a line, after a full disk or a power failure."""
    try:
        if not path.is_file() or not path.stat().st_size:
            return False
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"
    except OSError:  # the file may be write-only
        return False


def log_images(image_ids: Iterable[str | None]) -> None:
    """Add image ids to the audit line of the current request.

    Text that is not an image id of this project is dropped, since clients can send anything as an id.
    """
    images: dict[str, None] = g.setdefault("audit_images", {})
    images.update(
        dict.fromkeys(image_id for image_id in image_ids if image_id and IMAGE_ID.fullmatch(image_id))
    )


def log_job(job: str) -> None:
    """Add the name of an indexing job, made by the service, to the audit line of the current request."""
    g.audit_job = job
