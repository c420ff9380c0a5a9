"""Result of adding images, and further writes in the same transaction."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, insert

from cbir.store.base import schema
from cbir.store.base.checksums import row_checksum
from cbir.store.records import idempotency, originals
from cbir.store.records.idempotency import StoredReply


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
        return idempotency.find_reply(self._connection, key)

    def store_reply(self, key: str, reply: StoredReply) -> None:
        """Store the reply to the request with this idempotency key."""
        idempotency.store_reply(self._connection, key, reply)
