"""Changes of labels, with their entries in the history, within the transaction of a connection.

Images also get the labels of duplicates besides those that they have, and conflicts between both are reported.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, select

from cbir.store.base import metadata
from cbir.store.base.label_values import SLICE_PLACE, STUDY_DAY
from cbir.store.base.schema import images, labels
from cbir.store.base.statements import values_checksum
from cbir.store.records import change_history, originals
from cbir.store.records.image_rows import batches, ids_of, insert_labels, rows_matching, update_images
from cbir.store.records.records import OF_PATIENT, parse_day

DAMAGED = object()  # label that differs from all values, so that it is written again


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
        change_history.record_change(connection, who, "labelled", len(new), list(new))
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
    change_history.record_change(connection, who, "labelled", len(ids), ids)
    metadata.bump_generation(connection)
    return True


PATIENT = "patient"


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
            change_history.record_change(connection, who, "labelled", 1, [duplicate.image_id])
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
        change_history.record_change(connection, who, "labelled", len(ids), ids)
        metadata.bump_generation(connection)
    return len({number for _, _, number in new})


def _keys_by_number(connection: Connection, numbers: Iterable[Any]) -> dict[int, set[str]]:
    keys: dict[int, set[str]] = defaultdict(set)
    query = select(labels.c.number, labels.c.key).where(labels.c.number.in_(list(numbers)))
    for number, key in connection.execute(query):
        keys[number].add(key)
    return keys
