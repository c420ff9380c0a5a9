"""Lines of the audit log, and their chain: each carries a keyed hash of itself and of the line before it."""

import errno
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from cbir.errors import CbirError, InvalidInput
from cbir.system.ownership import create_file
from service.state.schema import StateUnavailable

RESTARTED = "chain restarted"  # action of the line that follows a missing note of the last line
NOT_WRITTEN = "lines not written"  # action of the line that counts those that were lost
MAC_BYTES = 16
MAC_AT_END = re.compile(rb', "mac": "([0-9a-f]{32})"\}')
MAC_LENGTH = len(b', "mac": ""}') + 2 * MAC_BYTES
KEY_BYTES = 32
CHECK = "audit"  # action of the line that tries whether lines can be written
MAX_IMAGES = 50  # listed in a line; image_count counts them all

log = logging.getLogger(__name__)


class ChainHead(NamedTuple):
    """Last line of a chain. number: its place in the chain, from 1; 0 for an empty chain."""

    number: int
    mac: str

    def __str__(self) -> str:
        return f"{self.number}:{self.mac}"


def start_chain(key: bytes) -> ChainHead:
    """Return the head of an empty chain."""
    return ChainHead(0, _mac(key, b"start "))


def chain_line(key: bytes, head: ChainHead, fields: dict[str, Any]) -> tuple[bytes, ChainHead]:
    """Return the line that appends `fields` to the chain that ends in `head`, and the new head."""
    number = head.number + 1
    body = json.dumps({**fields, "n": number, "prev": head.mac})[:-1].encode()
    mac = _mac(key, body)
    return body + f', "mac": "{mac}"}}\n'.encode(), ChainHead(number, mac)


def _mac(key: bytes, body: bytes) -> str:
    return hmac.new(key, body, hashlib.sha256).hexdigest()[: 2 * MAC_BYTES]


def read_head(key: bytes, line: bytes) -> ChainHead | None:
    """Return the head of a chain that ends in `line`, without its newline; None if the line is not authentic."""
    match = MAC_AT_END.fullmatch(line[-MAC_LENGTH:])
    if match is None or not hmac.compare_digest(_mac(key, line[:-MAC_LENGTH]), match[1].decode()):
        return None
    return ChainHead(int(json.loads(line)["n"]), match[1].decode())


def read_or_create_key(file: Path) -> bytes:
    """Return the key in `file`, a new one if there is no such file; raises OSError and InvalidInput."""
    with suppress(FileNotFoundError):
        return read_key(file)
    key = secrets.token_hex(KEY_BYTES)
    opened = create_file(file, os.O_WRONLY)
    try:
        with os.fdopen(opened, "wb", buffering=0) as written:
            if written.write(key.encode()) < len(key):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
            os.fsync(opened)
    except OSError:
        file.unlink(missing_ok=True)  # half a key would be a damaged one at the next start
        raise
    return bytes.fromhex(key)


def read_key(file: Path) -> bytes:
    """Return the key in `file`; raises OSError, and InvalidInput if it is damaged."""
    text = file.read_text(encoding="ascii", errors="replace").strip()
    if not re.fullmatch(rf"[0-9a-f]{{{2 * KEY_BYTES}}}", text):
        raise InvalidInput(f"{file} is damaged; restore it from a backup, or move it away")
    return bytes.fromhex(text)


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
        **others: object,
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
        **others
            Fields that other lines do not have. changed_token: id of the token that the request has created or
            revoked. also_revoked: ids of those that were revoked because that one had made them. sent: what the
            request let leave for other services.
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
        if self._try(fields | {name: value for name, value in others.items() if value}):
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
