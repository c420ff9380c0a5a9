"""Answers kept for a day, so that a request which is sent again is not done again."""

import hashlib
import time
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from cbir.store.schema import replies

KEPT_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Reply:
    """What was answered. request: hash of what was asked."""

    request: str
    status: int
    body: str


def digest(*parts: bytes) -> str:
    """A hash of several byte strings, each told apart from the next by its length."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()


def find(connection: Connection, key: str) -> Reply | None:
    """The reply kept under a key of at most a day's age."""
    young = replies.c.at > int(time.time()) - KEPT_SECONDS
    row = connection.execute(select(replies).where(replies.c.key == key, young)).first()
    return Reply(row.request, row.status, row.body) if row else None


def keep(connection: Connection, key: str, reply: Reply) -> None:
    """Keep a reply, and drop those that are older than a day."""
    now = int(time.time())
    old = (replies.c.at <= now - KEPT_SECONDS) | (replies.c.key == key)
    connection.execute(delete(replies).where(old))
    row = {"key": key, "request": reply.request, "status": reply.status, "body": reply.body, "at": now}
    connection.execute(insert(replies).values(row))


def forget(connection: Connection) -> None:
    """Drop all replies: they name images."""
    connection.execute(delete(replies))
