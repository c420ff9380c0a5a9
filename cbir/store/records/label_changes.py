"""Changes of labels, and the history of a collection: who changed what, and when. It says nothing about patients."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, delete, exists, func, insert, select

from cbir.store.base import metadata
from cbir.store.base.reserved_labels import SLICE_PLACE, STUDY_DAY
from cbir.store.base.schema import changed_images, changes, forgotten, images, labels
from cbir.store.base.statements import Statement, is_postgresql, values_checksum
from cbir.store.records import originals
from cbir.store.records.image_rows import batches, ids_of, insert_labels, rows_matching, update_images
from cbir.store.records.records import OF_PATIENT, parse_day

KINDS = ("added", "deleted", "labelled", "erased", "profile")
INSERT = Statement(
    'INSERT INTO changes (at, who, what, images, "first", "last") VALUES (?, ?, ?, ?, ?, ?) RETURNING change'
)
MAX_IDS = 100  # listed per change; `images` counts them all
KEPT_OF_IMAGE = 1000  # newest entries of an image that are kept
PRUNED_EVERY = 1000  # changes; each time, all entries are read
DAMAGED = object()  # label that differs from all values, so that it is written again
PATIENT = "patient"


@dataclass(frozen=True)
class Change:
    """One change. images: number of images that it changed; image_ids: the first 100 of those not erased since."""

    change: int
    at: str
    who: str
    what: str
    images: int
    image_ids: tuple[str, ...]


def record_change(
    connection: Connection,
    who: str,
    what: str,
    count: int,
    image_ids: Sequence[str] = (),
    numbers: tuple[int, int] | None = None,
) -> None:
    """Add a change to the history.

    Parameters
    ----------
    connection : Connection
    who : str
        Name of the user or program.
    what : str
        One of `KINDS`.
    count : int
        Number of images that it changed.
    image_ids : sequence of str
        Their ids.
    numbers : (int, int), optional
        First and last number of added images, instead of their ids.
    """
    assert what in KINDS, what
    first, last = numbers or (None, None)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    number = INSERT.run(connection, at, who, what, count, first, last).scalar_one()
    if image_ids:
        rows = [{"change": number, "image_id": image_id} for image_id in image_ids]
        connection.execute(insert(changed_images), rows)
    if number % PRUNED_EVERY == 0:
        prune_entries_of_images(connection, number - PRUNED_EVERY)


def prune_entries_of_images(connection: Connection, since: int) -> None:
    """Keep the newest KEPT_OF_IMAGE entries of each image that changed after the change `since`.

    Changes without any image left go too. Indexes that follow the history miss nothing: a newer entry of the image
    is still there.
    """
    recent = select(changed_images.c.image_id).where(changed_images.c.change > since)
    age = func.row_number().over(
        partition_by=changed_images.c.image_id, order_by=changed_images.c.change.desc()
    )
    entries = select(changed_images, age.label("age")).where(changed_images.c.image_id.in_(recent)).subquery()
    old = connection.execute(
        select(entries.c.change, entries.c.image_id).where(entries.c.age > KEPT_OF_IMAGE)
    ).all()
    if not old:
        return
    entry = (changed_images.c.change == bindparam("number")) & (changed_images.c.image_id == bindparam("id"))
    connection.execute(delete(changed_images).where(entry), [{"number": row[0], "id": row[1]} for row in old])
    left = exists().where(changed_images.c.change == changes.c.change)
    emptied = delete(changes).where(changes.c.change == bindparam("number"), ~left)
    connection.execute(emptied, [{"number": number} for number in {row[0] for row in old}])


def forget_content(connection: Connection, content_hashes: Sequence[str]) -> None:
    """Remove the ids of all images with this content from the history; ids begin with the content hash."""
    if content_hashes:
        mark_incomplete(connection)  # other patients may have images with this content
    for content_hash in content_hashes:
        same = changed_images.c.image_id.startswith(content_hash)
        connection.execute(delete(changed_images).where(same))


def prune_changes(connection: Connection, days: int) -> None:
    """Delete changes older than some `days`; the others keep their numbers, and numbers are not used again."""
    old = changes.c.at <= _days_ago(days)
    if is_postgresql(connection):  # the last names the state of the database
        old &= changes.c.change < select(func.max(changes.c.change)).scalar_subquery()
    mark_incomplete(connection, old)
    connection.execute(delete(changes).where(old))


def mark_incomplete(connection: Connection, *conditions: ColumnElement[bool]) -> None:
    """Note that changes for which `conditions` hold are missing from the history, for indexes that follow it."""
    last = connection.scalar(select(func.max(changes.c.change)).where(*conditions))
    earlier = int(metadata.find_value(connection, metadata.INCOMPLETE_CHANGES) or 0)
    if last and last > earlier:
        metadata.set_value(connection, metadata.INCOMPLETE_CHANGES, str(last))


def prune_deletions(connection: Connection, days: int) -> None:
    """Forget the content that users deleted more than some `days` ago: indexing its files adds it again."""
    connection.execute(delete(forgotten).where(forgotten.c.at <= _days_ago(days)))


def _days_ago(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")


def read_changes(connection: Connection, before: int | None = None, limit: int = 100) -> list[Change]:
    """Return changes, the newest first.

    Parameters
    ----------
    connection : Connection
    before : int, optional
        Only changes with a smaller number.
    limit : int
        Largest number of changes.
    """
    query = select(changes).order_by(changes.c.change.desc()).limit(limit)
    if before is not None:
        query = query.where(changes.c.change < before)
    return [
        Change(row.change, row.at, row.who, row.what, row.images, _image_ids(connection, row))
        for row in connection.execute(query).all()
    ]


def read_additions(connection: Connection) -> list[tuple[str, int, int]]:
    """Return when images were added, with their first and last number, in order; without pruned changes."""
    query = select(changes.c.at, changes.c.first, changes.c.last).where(changes.c.first.is_not(None))
    return [(row.at, row.first, row.last) for row in connection.execute(query.order_by(changes.c.change))]


def _image_ids(connection: Connection, row: Row[Any]) -> tuple[str, ...]:
    if row.first is not None:
        added = images.c.number.between(row.first, row.last)
        query = select(images.c.image_id).where(added).order_by(images.c.number)
    else:
        query = select(changed_images.c.image_id).where(changed_images.c.change == row.change)
    return tuple(connection.scalars(query.limit(MAX_IDS)))


def set_one_label(connection: Connection, key: str, values: Mapping[str, str], who: str) -> int:
    """Set one label of many images by id and return how many changed; deleted images are skipped.

    Parameters
    ----------
    connection : Connection
    key : str
        Key of the label.
    values : mapping
        New values by image id.
    who : str
        Name in the history.
    """
    columns = images.c.image_id, images.c.number
    numbers = dict(rows_matching(connection, columns, images.c.image_id, values))
    query = select(labels.c.number, labels.c.value).where(labels.c.key == key)
    current = dict(connection.execute(query).all())
    new = {image_id: n for image_id, n in numbers.items() if current.get(n) != values[image_id]}
    for batch in batches(list(new.values())):
        connection.execute(delete(labels).where(labels.c.key == key, labels.c.number.in_(batch)))
    if new:
        insert_labels(connection, [(key, values[image_id], number) for image_id, number in new.items()])
        record_change(connection, who, "labelled", len(new), list(new))
        metadata.bump_generation(connection)
    return len(new)


def change_labels(
    connection: Connection, numbers: Sequence[int], changed: Mapping[str, str | None], who: str
) -> bool:
    """Give images these labels, and take those away that are None; return whether anything changed.

    Parameters
    ----------
    connection : Connection
    numbers : sequence of int
        Numbers of the images.
    changed : mapping
        New values by key.
    who : str
        Name in the history.
    """
    columns = labels.c.number, labels.c.key, labels.c.value, labels.c.checksum
    rows = connection.execute(select(*columns).where(labels.c.number.in_(numbers)))
    current = {
        (number, key): value if checksum == values_checksum(key, value, number) else DAMAGED
        for number, key, value, checksum in rows
    }
    new = [
        (key, value, number)
        for number in numbers
        for key, value in changed.items()
        if current.get((number, key)) != value
    ]
    if not new:
        return False
    for key, _, number in new:
        connection.execute(delete(labels).where((labels.c.number == number) & (labels.c.key == key)))
    insert_labels(connection, [(key, value, number) for key, value, number in new if value is not None])
    ids = ids_of(connection, [number for _, _, number in new])
    record_change(connection, who, "labelled", len(ids), ids)
    metadata.bump_generation(connection)
    return True


@dataclass(frozen=True)
class DuplicateLabels:
    """Labels of a manifest for a file with the picture of an image. labels: without the patient."""

    image_id: str
    source: str
    labels: Mapping[str, str]
    patient_key: str | None = None


@dataclass(frozen=True)
class LabelConflict:
    """A label of a file that differs from that of the image with its picture, which stays.

    key: "patient" for its patient, without values. kept_source: file of the image.
    """

    key: str
    source: str
    kept_source: str
    value: str = ""
    kept_value: str = ""


def merge_duplicate(
    connection: Connection, duplicate: DuplicateLabels, who: str
) -> tuple[bool, list[LabelConflict]]:
    """Give an image the labels of a duplicate that it lacks; return whether any, and the conflicts.

    Parameters
    ----------
    connection : Connection
        In a transaction.
    duplicate : DuplicateLabels
        Labels of the duplicate.
    who : str
        Name in the history.
    """
    columns = images.c.number, images.c.source, images.c.patient_key
    conflicts: list[LabelConflict] = []
    changed = False
    for number, kept_source, patient_key in rows_matching(
        connection, columns, images.c.image_id, [duplicate.image_id]
    ):
        query = select(labels.c.key, labels.c.value).where(labels.c.number == number)
        present: dict[str, str] = dict(connection.execute(query).all())
        new = {key: value for key, value in duplicate.labels.items() if key != SLICE_PLACE}
        if STUDY_DAY in new:
            new[STUDY_DAY] = str(parse_day(new[STUDY_DAY]))
        if duplicate.patient_key and patient_key and duplicate.patient_key != patient_key:
            conflicts.append(LabelConflict(PATIENT, duplicate.source, kept_source))
            new = {key: value for key, value in new.items() if key not in OF_PATIENT}
        elif duplicate.patient_key and not patient_key:
            update_images(connection, [number], {"patient_key": duplicate.patient_key})
            record_change(connection, who, "labelled", 1, [duplicate.image_id])
            metadata.bump_generation(connection)
            changed = True
        conflicts += [
            LabelConflict(key, duplicate.source, kept_source, value, present[key])
            for key, value in new.items()
            if present.get(key, value) != value
        ]
        missing: dict[str, str | None] = {key: value for key, value in new.items() if key not in present}
        changed |= change_labels(connection, [number], missing, who)
    return changed, conflicts


def unplaced_sources(connection: Connection, sources: Sequence[str]) -> set[str]:
    """Return those of the sources with a DICOM image whose place in its series was never read."""
    return _unplaced(connection, images.c.source.in_(sources))


def _unplaced(connection: Connection, among: ColumnElement[bool]) -> set[str]:
    placed = exists().where(labels.c.number == images.c.number, labels.c.key == SLICE_PLACE)
    return set(connection.scalars(select(images.c.source).where(among, images.c.format == "dicom", ~placed)))


def unplaced_uploads(connection: Connection) -> list[str]:
    """Return the sources of DICOM images that were sent, and whose place in their series was never read."""
    return sorted(_unplaced(connection, images.c.source.startswith(originals.UPLOAD)))


def add_missing_labels(
    connection: Connection, facts: Mapping[str, Mapping[int | None, Mapping[str, str]]], who: str
) -> int:
    """Give the images of sources those labels that they lack, by source and frame; return how many images got some.

    Parameters
    ----------
    connection : Connection
        In a transaction.
    facts : mapping
        Labels by source and number of the frame, None for a single one.
    who : str
        Name in the history.
    """
    columns = images.c.number, images.c.source, images.c.frame
    rows = rows_matching(connection, columns, images.c.source, facts)
    keys = _keys_by_number(connection, [row.number for row in rows])
    new = [
        (key, value, row.number)
        for row in rows
        for key, value in facts[row.source].get(row.frame, {}).items()
        if key not in keys[row.number]
    ]
    if new:
        insert_labels(connection, new)
        ids = ids_of(connection, [number for _, _, number in new])
        record_change(connection, who, "labelled", len(ids), ids)
        metadata.bump_generation(connection)
    return len({number for _, _, number in new})


def _keys_by_number(connection: Connection, numbers: Iterable[Any]) -> dict[int, set[str]]:
    keys: dict[int, set[str]] = defaultdict(set)
    query = select(labels.c.number, labels.c.key).where(labels.c.number.in_(list(numbers)))
    for number, key in connection.execute(query):
        keys[number].add(key)
    return keys
