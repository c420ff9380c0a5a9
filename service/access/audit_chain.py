"""Chain of the audit log: each line carries a keyed hash of itself and of the line before it."""

import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

RESTARTED = "chain restarted"  # action of the line that follows a missing note of the last line
NOT_WRITTEN = "lines not written"  # action of the line that counts those that were lost
MAC_BYTES = 16
MAC_AT_END = re.compile(rb', "mac": "([0-9a-f]{32})"\}')
MAC_LENGTH = len(b', "mac": ""}') + 2 * MAC_BYTES


class ChainHead(NamedTuple):
    """Last line of a chain. number: its place in the chain, from 1; 0 for an empty chain."""

    number: int
    mac: str

    def __str__(self) -> str:
        return f"{self.number}:{self.mac}"


def start_chain(key: bytes, earlier: Iterable[bytes]) -> ChainHead:
    """Return the head of an empty chain that follows the bytes `earlier`, which no chain protects."""
    digest = begin_digest(key)
    for part in earlier:
        digest.update(part)
    return start_head(digest)


def begin_digest(key: bytes) -> hmac.HMAC:
    """Return the digest of the lines before a chain, none yet."""
    return hmac.new(key, b"start ", hashlib.sha256)


def start_head(earlier: hmac.HMAC) -> ChainHead:
    """Return the head of an empty chain after lines with the digest `earlier`."""
    return ChainHead(0, earlier.hexdigest()[: 2 * MAC_BYTES])


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
