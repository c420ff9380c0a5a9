"""Differences between an instance in the collection and the same instance in the archive."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cbir.ingest.description import DescribedFile
from cbir.store.records.records import FINDINGS_LABEL, STUDY_DATE, Record
from cbir.store.upkeep.archive_instances import StoredInstance


@dataclass(frozen=True)
class InstanceDifference:
    """Differences of an instance. moved: new records by image id. replaced: ids of images with other pixels.

    file: the frames that take their place; those that the file no longer has have none. All frames of the file, if it
    has a single one and had several, or the other way round.
    """

    moved: Mapping[str, Record] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()
    file: DescribedFile = field(default_factory=DescribedFile)

    def __str__(self) -> str:
        names = ("other pixels" if self.replaced else "", "another patient" if self.moved else "")
        return " and ".join(filter(None, names))


def find_difference(
    stored: StoredInstance, described: DescribedFile, labels: Mapping[str, Mapping[str, str]]
) -> InstanceDifference | None:
    """Compare the stored images of an instance with its frames in the archive; None if all are equal.

    Parameters
    ----------
    stored : StoredInstance
        The instance in the collection.
    described : DescribedFile
        All frames of its file in the archive.
    labels : mapping
        Labels of the stored images by id, which frames with other pixels keep. Without a date, none is added.
    """
    position = {record.frame: number for number, record in enumerate(described.records)}
    if stored.frames and (None in position) != (
        stored.frames[0].frame is None
    ):  # one frame now, and several before
        kept = labels.get(stored.frames[0].image_id, {})
        file = {number: _with_labels(record, kept) for number, record in enumerate(described.records)}
        replaced_ids = tuple(frame.image_id for frame in stored.frames)
        return InstanceDifference({}, replaced_ids, _only(described, file))
    moved: dict[str, Record] = {}
    replaced, selected = [], {}
    for frame in stored.frames:
        number = position.get(frame.frame)
        record = described.records[number] if number is not None else None
        if number is None or record is None or record.content_hash != frame.content_hash:
            replaced.append(frame.image_id)
            if number is not None and record is not None:
                selected[number] = _with_labels(record, labels.get(frame.image_id, {}))
        elif record.patient_key != frame.patient_key:
            moved[frame.image_id] = _without_new_date(record, labels.get(frame.image_id, {}))
    if not moved and not replaced:
        return None
    return InstanceDifference(moved, tuple(replaced), _only(described, selected))


def _with_labels(record: Record, earlier: Mapping[str, str]) -> Record:
    """Return a record that keeps labels of the image before, unless its header says otherwise."""
    kept = {key: value for key, value in earlier.items() if key != FINDINGS_LABEL}
    record = _without_new_date(record, earlier)
    return replace(record, labels=kept | record.labels)


def _without_new_date(record: Record, earlier: Mapping[str, str]) -> Record:
    """Return a record without a shifted date if the image had none: its collection keeps no dates."""
    if STUDY_DATE in earlier:
        return record
    return replace(record, labels={key: value for key, value in record.labels.items() if key != STUDY_DATE})


def _only(described: DescribedFile, records: Mapping[int, Record]) -> DescribedFile:
    """Return the frames at the positions in `records`, with these records."""
    positions = sorted(records)

    def pick(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(values[number] for number in positions if number < len(values))

    return replace(
        described,
        records=tuple(records[number] for number in positions),
        vectors=pick(described.vectors),
        thumbnails=pick(described.thumbnails),
        inverted=pick(described.inverted),
    )
