"""Quarantined images: kept with record, vector and thumbnail, and no answers until they are released."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import numpy as np
from sqlalchemy import Connection, insert, select

from cbir.errors import CollectionDamaged, InvalidInput, NotFound
from cbir.store.base.schema import (
    count_quarantined,
    delete_quarantined,
    has_quarantine,
    quarantine,
)
from cbir.store.base.statements import COLUMN, row_checksum
from cbir.store.records.image_rows import rows_matching
from cbir.store.records.records import Entry, Record
from cbir.store.safety import change_log

MOST_IMAGES = 20_000  # in the quarantine of a collection
NEEDED = "the quarantine is full (20,000 images); release or refuse some with `cbir collection quarantine`"


@dataclass(frozen=True)
class QuarantinedImage:
    """An image in quarantine. at: UTC, ISO 8601. who: added it. Its label `intake` says why."""

    image_id: str
    record: Record
    at: str
    who: str


def hold(connection: Connection, entries: Sequence[Entry], pictures: Mapping[str, bytes], who: str) -> None:
    """Quarantine images; one that is there already gets the new record.

    Parameters
    ----------
    connection : Connection
        In a transaction.
    entries : sequence of (Record, (d,) float32)
        Records and raw vectors.
    pictures : mapping of str to bytes
        Thumbnails, JPEG, by content hash.
    who : str
        Name in the list.

    Raises
    ------
    InvalidInput
        If more than 20,000 images would be in quarantine.
    """
    if not entries:
        return
    change_log.ensure_quarantine(connection)
    rows = {}
    at = datetime.now(UTC).isoformat(timespec="seconds")
    for record, vector in entries:
        text, raw = json.dumps(asdict(record)), np.asarray(vector, "<f4").tobytes()
        picture = pictures.get(record.content_hash, b"")
        rows[record.content_hash] = {
            "image_id": record.content_hash,
            "record": text,
            "vector": raw,
            "picture": picture,
            "source": record.source,
            "patient_key": record.patient_key,
            "at": at,
            "who": who,
            COLUMN: row_checksum(text.encode(), raw, picture),
        }
    take_out(connection, list(rows))
    connection.execute(insert(quarantine), list(rows.values()))
    if count_quarantined(connection) > MOST_IMAGES:
        raise InvalidInput(NEEDED)


def take_out(connection: Connection, hashes: Sequence[str]) -> None:
    """Take the images with these content hashes out of quarantine."""
    delete_quarantined(connection, quarantine.c.image_id, hashes)


def held_contents(connection: Connection, hashes: Iterable[str]) -> set[str]:
    """Return those of the content hashes whose images are in quarantine."""
    if not has_quarantine(connection):
        return set()
    c = quarantine.c.image_id
    return {row.image_id for row in rows_matching(connection, [c], c, hashes)}


def quarantined_records(connection: Connection, sources: Sequence[str]) -> dict[str, list[Record]]:
    """Return the records of the quarantined images of those sources that have some."""
    records: dict[str, list[Record]] = {}
    if has_quarantine(connection):
        c = quarantine.c
        for row in rows_matching(connection, (c.source, c.record), c.source, sources):
            records.setdefault(row.source, []).append(_record(row.record))
    return records


def list_quarantined(connection: Connection, after: str, limit: int) -> list[QuarantinedImage]:
    """Return the first `limit` images whose id is greater than `after`, by id."""
    if not has_quarantine(connection):
        return []
    c = quarantine.c
    query = (
        select(c.image_id, c.record, c.at, c.who).where(c.image_id > after).order_by(c.image_id).limit(limit)
    )
    return [
        QuarantinedImage(row.image_id, _record(row.record), row.at, row.who)
        for row in connection.execute(query)
    ]


def quarantined_picture(connection: Connection, image_id: str) -> bytes:
    """Return the thumbnail of a quarantined image, JPEG. Raises NotFound."""
    picture: bytes | None = None
    if has_quarantine(connection):
        picture = connection.scalar(select(quarantine.c.picture).where(quarantine.c.image_id == image_id))
    if not picture:
        raise not_quarantined(image_id)
    return bytes(picture)


def quarantined_entries(
    connection: Connection, image_ids: Sequence[str]
) -> tuple[list[Entry], dict[str, bytes]]:
    """Return records with raw vectors, and thumbnails by content hash. Raises NotFound, CollectionDamaged."""
    rows = []
    if has_quarantine(connection):
        c = quarantine.c
        columns = (c.image_id, c.record, c.vector, c.picture, c[COLUMN])
        rows = rows_matching(connection, columns, c.image_id, image_ids)
    if missing := sorted(set(image_ids) - {row.image_id for row in rows}):
        raise not_quarantined(missing[0])
    for row in rows:
        if row.checksum != row_checksum(row.record.encode(), bytes(row.vector), bytes(row.picture)):
            raise CollectionDamaged(
                f"the quarantined image {row.image_id} does not match its checksum; refuse it"
            )
    entries = [
        (_record(row.record), np.frombuffer(bytes(row.vector), "<f4").astype(np.float32)) for row in rows
    ]
    return entries, {row.image_id: bytes(row.picture) for row in rows}


def quarantine_problems(connection: Connection) -> list[str]:
    """Describe quarantined images that do not match their checksums, in one line."""
    if not has_quarantine(connection):
        return []
    c = quarantine.c
    query = select(c.image_id, c.record, c.vector, c.picture, c[COLUMN])
    damaged = [
        row.image_id
        for row in connection.execution_options(yield_per=256).execute(query)
        if row.checksum != row_checksum(row.record.encode(), bytes(row.vector), bytes(row.picture))
    ]
    if not damaged:
        return []
    return [
        f"{len(damaged)} quarantined images do not match their checksums, such as {damaged[0]}; refuse them"
    ]


def not_quarantined(image_id: str) -> NotFound:
    """Return the error for an image that is not in quarantine."""
    return NotFound(f"no image {image_id} is in quarantine; it may have been released or refused")


def _record(text: str) -> Record:
    return Record(**json.loads(text))
