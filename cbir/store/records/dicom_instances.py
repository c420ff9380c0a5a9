"""DICOM instances of a collection by their UIDs, and shifted study dates."""

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from cbir.store.base.schema import images, instance_copies, labels
from cbir.store.base.statements import insert_missing, with_checksum
from cbir.store.records.image_rows import batches, rows_matching
from cbir.store.records.records import Record, parse_study_date
from cbir.system.threads import with_checkpoints

MAX_SHIFT_YEARS = 5


def known_instances(connection: Connection, uids: Iterable[str]) -> set[str]:
    """Return those of the SOP Instance UIDs `uids` whose pictures are in the collection."""
    return set(sop_classes(connection, uids))


def sop_classes(connection: Connection, uids: Iterable[str]) -> dict[str, str]:
    """Return the SOP classes of those instances whose pictures are in the collection; "" if unknown."""
    known: dict[str, str] = {}
    values = {uid for uid in uids if uid}
    for table in (instance_copies, images):
        columns = table.c.instance, table.c.sop_class
        known |= {
            row.instance: row.sop_class
            for row in rows_matching(connection, columns, table.c.instance, values)
        }
    return known


def known_files(connection: Connection, uids: Iterable[str]) -> set[tuple[str, str]]:
    """Return SOP Instance UID and source of those images that have one of `uids`."""
    columns = images.c.instance, images.c.source
    rows = rows_matching(connection, columns, images.c.instance, {uid for uid in uids if uid})
    return {(row.instance, row.source) for row in rows}


def other_pictures(connection: Connection, records: Iterable[Record]) -> set[tuple[str, str]]:
    """Return SOP Instance UID and content hash of those `records` whose UID the collection has with another picture.

    Frames that it does not have, such as deleted ones or those that an option left out, say nothing, unless one of
    both files has a single frame and the other several.
    """
    records = list(records)
    uids = {record.instance for record in records if record.instance}
    columns = images.c.instance, images.c.frame, images.c.content_hash
    stored = rows_matching(connection, columns, images.c.instance, uids)
    by_frame = {(row.instance, row.frame): row.content_hash for row in stored}
    pairs = {(row.instance, row.content_hash) for row in stored}
    copies = _hashes_of_copies(connection, uids)
    pairs |= copies
    only_copies = {uid for uid, _ in copies} - {row.instance for row in stored}
    has_frames = {(row.instance, row.frame is not None) for row in stored}
    return {
        (record.instance, record.content_hash)
        for record in records
        if (record.instance, record.content_hash) not in pairs
        and (
            (record.instance, record.frame) in by_frame
            or (record.instance, record.frame is None) in has_frames
            or record.instance in only_copies
        )
    }


def _hashes_of_copies(connection: Connection, uids: Iterable[str]) -> set[tuple[str, str]]:
    """Return SOP Instance UID and content hash of instances whose picture an image of another UID shows."""
    join = instance_copies.join(images, instance_copies.c.number == images.c.number)
    query = select(instance_copies.c.instance, images.c.content_hash).select_from(join)
    rows = [
        row
        for batch in batches(sorted(uids))
        for row in connection.execute(query.where(instance_copies.c.instance.in_(batch)))
    ]
    return {(row.instance, row.content_hash) for row in rows}


def group_images(connection: Connection, levels: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group the DICOM images by study, series or instance.

    Parameters
    ----------
    connection : Connection
    levels : int
        1 for studies, 2 for series, 3 for instances.

    Returns
    -------
    numbers : (n,) int64
        Image numbers, ascending.
    groups : (n,) int64
        Group of each image, counted from 0.
    """
    columns = (images.c.study, images.c.series, images.c.instance)[:levels]
    query = select(images.c.number, *columns).where(images.c.instance != "").order_by(images.c.number)
    seen: dict[tuple[str, ...], int] = {}
    numbers, groups = array("q"), array("q")
    for number, *uids in with_checkpoints(connection.execute(query)):
        numbers.append(number)
        groups.append(seen.setdefault(tuple(uids), len(seen)))
    return np.array(numbers, np.int64), np.array(groups, np.int64)


def store_copies(connection: Connection, copies: Iterable[tuple[Record, str]]) -> None:
    """Store the instances of records whose picture an image shows that has another SOP Instance UID.

    Parameters
    ----------
    connection : Connection
    copies : iterable of (Record, str)
        Records that were not added, and the ids of the images.
    """
    by_image = [(record, image_id) for record, image_id in copies if record.instance]
    if not by_image:
        return
    columns = images.c.image_id, images.c.number, images.c.instance
    image_ids = {image_id for _, image_id in by_image}
    rows = {row.image_id: row for row in rows_matching(connection, columns, images.c.image_id, image_ids)}
    values = [
        with_checksum(
            instance_copies,
            {
                "instance": record.instance,
                "sop_class": record.sop_class,
                "patient_key": record.patient_key,
                "number": rows[image_id].number,
            },
        )
        for record, image_id in by_image
        if rows[image_id].instance != record.instance
    ]
    if values:
        insert_missing(connection, instance_copies, values)


def shift_study_date(secret: bytes, patient: str, day: str) -> str:
    """Move a study date back by 1 to 1826 days, the same number for all dates of a patient.

    Intervals between a patient's studies stay, and without the key no one can compute the date (PS3.15, E.3.6,
    Retain Longitudinal Temporal Information with Modified Dates).

    Parameters
    ----------
    secret : bytes
        Key of the collection.
    patient : str
        Identifier of the patient.
    day : str
        Study date, YYYYMMDD.

    Returns
    -------
    str
        Shifted date, YYYYMMDD; "" without a valid date or a patient.
    """
    original = parse_study_date(day)
    if original is None or not patient.strip():
        return ""
    digest = hashlib.blake2b(b"date " + patient.strip().encode(), key=secret, digest_size=8).digest()
    try:
        days = 1 + int.from_bytes(digest, "big") % (MAX_SHIFT_YEARS * 365 + 1)
        shifted = original - timedelta(days=days)
    except OverflowError:
        return ""
    return shifted.strftime("%Y%m%d") if shifted.year >= 1000 else ""


@dataclass(frozen=True)
class StudyCounts:
    """Sizes of a study and one of its series in the collection. modalities: of the study, ascending."""

    series: int
    study_instances: int
    series_instances: int
    modalities: list[str]


def count_instances(
    connection: Connection, pairs: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], StudyCounts]:
    """Count series and instances of studies, by `pairs` of Study and Series Instance UID."""
    pairs = set(pairs)
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    modalities: dict[str, set[str]] = defaultdict(set)
    for batch in batches(sorted({study for study, _ in pairs})):
        in_batch = images.c.study.in_(batch)
        columns = images.c.study, images.c.series
        counted = select(*columns, func.count(images.c.instance.distinct())).group_by(*columns)
        for study, series, count in connection.execute(counted.where(in_batch)):
            counts[study][series] = count
        query = select(images.c.study, labels.c.value).join(labels).where(labels.c.key == "modality")
        for study, modality in connection.execute(query.where(in_batch).distinct()):
            modalities[study].add(modality)
    result = {}
    for study, series in pairs:
        by_series, kinds = counts[study], sorted(modalities[study])
        counted_instances = sum(by_series.values()), by_series.get(series, 0)
        result[study, series] = StudyCounts(len(by_series), *counted_instances, kinds)
    return result
