"""Append-only audit log of JSON lines: who did what, when."""

import errno
import logging
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from flask import g

from cbir.errors import InvalidInput
from cbir.system.files import BINARY, OWNER_FILE, has_room, private_folder
from service.access.audit_chain import CHECK, NOT_WRITTEN, RESTARTED, AuditWriter, chain_line, time_of_line
from service.access.audit_files import AuditFiles, ChainState

IMAGE_ID = re.compile(r"[0-9a-f]{32}(-[0-9]{1,9})?")

log = logging.getLogger(__name__)


class AuditLog(AuditWriter):
    """Appends lines to a chain of files. Thread-safe, and several processes may append to one file.

    A new file is created when the last one was moved away or deleted, or has reached `max_bytes` (0: never).
    """

    def __init__(self, path: Path, max_bytes: int = 0) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._lock = Lock()
        self._files = AuditFiles(path)
        self._file = -1
        self._missing = 0  # lines that could not be written and are not counted by a later line yet
        self.open()

    def open(self) -> None:
        """Open the file again; raise InvalidInput if it cannot be written."""
        try:
            private_folder(self.path.parent)
            self._open_file()
            with self._files.locked() as chain:
                self._note_restart(chain)
        except OSError as error:
            raise InvalidInput(f"audit_log {self.path} cannot be written: {error.strerror}") from error

    def _open_file(self) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | BINARY, OWNER_FILE)
        self.close()
        self._file = file

    def _reopen(self) -> None:
        private_folder(self.path.parent)
        self._open_file()

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _add(self, fields: dict[str, Any]) -> None:
        with self._lock:
            try:
                with self._files.locked() as chain:
                    self._note_restart(chain)
                    self._note_missing(chain)
                    self._append(chain, fields)
            except OSError:
                self._missing += fields["action"] != CHECK
                raise

    def _check_place(self) -> None:
        with self._lock, self._files.locked():
            if self._was_moved():
                self._reopen()
            if not has_room(self.path.parent):  # even where a line or two may fit into the file's last block
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def _note_restart(self, chain: ChainState) -> None:
        if chain.restarted:
            log.error("%s is missing, so lines of the audit log may have been removed", self._files.note_file)
            self._append(chain, {"time": time_of_line(), "action": RESTARTED})

    def _note_missing(self, chain: ChainState) -> None:
        if self._missing:
            self._append(chain, {"time": time_of_line(), "action": NOT_WRITTEN, "count": self._missing})
            self._missing = 0

    def _append(self, chain: ChainState, fields: dict[str, object]) -> None:
        if self._was_moved():
            self._reopen()
        line, head = chain_line(chain.key, chain.head, fields)
        size = os.fstat(self._file).st_size
        if self.max_bytes and size and size + len(line) > self.max_bytes:
            self._rotate()
            size = 0
        torn = size and not chain.ends_in_newline(size)
        text = b"\n" + line if torn else line
        written = os.write(self._file, text)
        if written < len(text):
            raise OSError(f"a line of {self.path} was cut short; is the disk full?")
        chain.save(head, size + written)
        chain.restarted = False

    def _rotate(self) -> None:
        try:
            self._files.rotate()
        except OSError as error:
            log.error("the audit log %s cannot be rotated: %s", self.path, error.strerror)
        self._open_file()

    def _was_moved(self) -> bool:
        try:
            current, opened = self.path.stat(), os.fstat(self._file)
        except OSError:
            return True
        return (current.st_dev, current.st_ino) != (opened.st_dev, opened.st_ino)


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


def log_sent(contents: Iterable[str]) -> None:
    """Add what the current request lets leave this site to its audit line, and where to."""
    g.setdefault("audit_sent", []).extend(contents)


def log_changed_token(token_id: str, also_revoked: Sequence[str] = ()) -> None:
    """Add the id of a created or revoked token to the audit line of the current request.

    `also_revoked`: ids of the tokens that were revoked because it had made them.
    """
    g.audit_changed_token, g.audit_also_revoked = token_id, also_revoked
