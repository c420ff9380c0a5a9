"""Result of adding images, further writes in the same transaction, and stored replies to repeated requests."""

import hashlib
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, func, insert, select

from cbir.store.base import schema
from cbir.store.base.schema import replies
from cbir.store.base.statements import row_checksum
from cbir.store.records import originals
from cbir.store.records.image_rows import delete_rows

LIFETIME_SECONDS = 24 * 3600
MOST_REPLIES = 50_000  # that are stored; the oldest tenth makes room

CONTENT_HASH = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class StoredReply:
    """Reply to a request. request: hash of the request."""

    request: str
    status: int
    body: str


def digest(*parts: bytes) -> str:
    """Hash several byte strings, each with its length."""
    hasher = hashlib.blake2b(digest_size=16)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little") + part)
    return hasher.hexdigest()


def find_reply(connection: Connection, key: str) -> StoredReply | None:
    """Return the reply stored under a key within the last day."""
    recent = replies.c.at > int(time.time()) - LIFETIME_SECONDS
    row = connection.execute(select(replies).where(replies.c.key == key, recent)).first()
    return StoredReply(row.request, row.status, row.body) if row else None


def store_reply(connection: Connection, key: str, reply: StoredReply) -> None:
    """Store a reply and delete those older than a day, and the oldest tenth of `MOST_REPLIES`.

    Parameters
    ----------
    connection : Connection
    key : str
        Hash of the client's idempotency key.
    reply : StoredReply
        The reply.
    """
    now = int(time.time())
    outdated = (replies.c.at <= now - LIFETIME_SECONDS) | (replies.c.key == key)
    connection.execute(delete(replies).where(outdated))
    if (connection.scalar(select(func.count()).select_from(replies)) or 0) >= MOST_REPLIES:
        newest_first = select(replies.c.key).order_by(replies.c.at.desc(), replies.c.key)
        oldest = newest_first.offset(MOST_REPLIES * 9 // 10)
        delete_rows(connection, replies.c.key, connection.scalars(oldest).all())
    row = {"key": key, "request": reply.request, "status": reply.status, "body": reply.body, "at": now}
    connection.execute(insert(replies).values(row))


def copy_replies(
    source: Connection, target: Connection, left_out: Callable[[Iterable[str]], set[str]]
) -> None:
    """Copy the replies of the last day that the target lacks.

    Parameters
    ----------
    source, target : Connection
    left_out : callable
        Returns those of content hashes that the target does not have; a request whose reply names one is not copied,
        so that it is carried out there.
    """
    oldest = int(time.time()) - LIFETIME_SECONDS
    recent = select(replies).where(replies.c.at > oldest)
    target.execute(delete(replies).where(replies.c.at <= oldest))  # their keys may have been used again since
    present = set(target.scalars(select(replies.c.key)))
    rows = [dict(row._mapping) for row in source.execute(recent) if row.key not in present]
    absent = left_out({content for row in rows for content in CONTENT_HASH.findall(row["body"])})
    if copied := [row for row in rows if absent.isdisjoint(CONTENT_HASH.findall(row["body"]))]:
        target.execute(insert(replies), copied)


def delete_replies(connection: Connection) -> None:
    """Delete all replies: they name images."""
    connection.execute(delete(replies))


def delete_replies_naming(connection: Connection, contents: Collection[str]) -> None:
    """Delete the replies that name images with these content hashes; other requests can still be repeated."""
    erased = set(contents)
    naming = [
        row.key
        for row in connection.execute(select(replies.c.key, replies.c.body))
        if not erased.isdisjoint(CONTENT_HASH.findall(row.body))
    ]
    delete_rows(connection, replies.c.key, naming)


@dataclass(frozen=True)
class Added:
    """Result of `Writer.add`. ids: of the images added.

    outcomes: for every entry "added", "duplicate", "deleted earlier", or "updated" if its source showed the image
    before, and the id of an image with its content, None if there is none; "quarantined" with the id in quarantine.
    numbers: of the images added, by id. other_patients: positions of duplicates whose image is of another patient.
    """

    ids: tuple[str, ...] = ()
    duplicates: int = 0
    deleted_earlier: int = 0
    updated: int = 0
    outcomes: tuple[tuple[str, str | None], ...] = ()
    numbers: dict[str, int] = field(default_factory=dict)
    quarantined: int = 0
    other_patients: frozenset[int] = frozenset()


class AddTransaction:
    """Writes that commit together with the images of `Writer.add`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def store_thumbnails(self, thumbnails: Mapping[int, bytes]) -> None:
        """Store JPEG thumbnails by image number."""
        rows = [
            {"number": number, "picture": jpeg, "checksum": row_checksum(b"%d" % number, jpeg)}
            for number, jpeg in thumbnails.items()
        ]
        if rows:
            self._connection.execute(insert(schema.thumbnails), rows)

    def note_originals(self, sources: Iterable[str]) -> None:
        """Note that the originals of these sources are stored."""
        originals.note_originals(self._connection, sources)

    def find_reply(self, key: str) -> StoredReply | None:
        """Return the reply to an earlier request with this idempotency key, also of another process."""
        return find_reply(self._connection, key)

    def store_reply(self, key: str, reply: StoredReply) -> None:
        """Store the reply to the request with this idempotency key."""
        store_reply(self._connection, key, reply)
