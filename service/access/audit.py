"""Who did what when: a log of JSON lines that is only ever appended to."""

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
    """Appends lines to a file, a new one where the old was moved away or deleted. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._file = -1
        self._torn = False  # the last line is not whole: the next one begins on a line of its own
        self.open()

    def open(self) -> None:
        """Open the file anew; raises InvalidInput where that cannot be."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InvalidInput(f"audit_log {self.path} cannot be written: {error.strerror}") from error
        self.close()
        self._file = file
        self._torn = _is_torn(self.path)

    def close(self) -> None:
        """Let go of the file."""
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
        """Append a line. Where that fails the service's own log says so, and the service goes on."""
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
                if self._moved():
                    self.open()
                written = os.write(self._file, b"\n" + text if self._torn else text)
                self._torn = written < len(text) + self._torn
            if self._torn:
                log.error("the audit log %s took part of a line only; is its disk full?", self.path)
        except (OSError, InvalidInput) as error:
            log.error("the audit log cannot be written: %s", error)

    def _moved(self) -> bool:
        try:
            now, opened = self.path.stat(), os.fstat(self._file)
        except OSError:
            return True
        return (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino)


def _is_torn(path: Path) -> bool:
    """Whether a file ends amid a line, where a disk was full or the machine went down."""
    try:
        if not path.is_file() or not path.stat().st_size:
            return False
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"
    except OSError:  # it may be there to be written to only
        return False


def about(image_ids: Iterable[str | None]) -> None:
    """Say which images the present request is about, for its line in the audit log.

    What is not an image id as this project makes them is left out: a client may send anything as one.
    """
    images: dict[str, None] = g.setdefault("audit_images", {})
    images.update(dict.fromkeys(name for name in image_ids if name and IMAGE_ID.fullmatch(name)))


def about_job(job: str) -> None:
    """Say which job the present request is about: a name that the service made."""
    g.audit_job = job
