"""Studies, series and instances of an archive, and how an instance differs from that of the collection."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cbir.errors import ArchiveFailed
from cbir.ingest.description import DescribedFile
from cbir.store.records.records import FINDINGS_LABEL, STUDY_DATE, Record
from cbir.store.upkeep.archive_instances import StoredInstance


@dataclass(frozen=True)
class ArchiveItem:
    """A study, series or instance by its UIDs, "" where they do not go on or are not known.

    gap: what the archive could not list, for instance "study 7 of its list"; "" for an item that is known.
    """

    study: str = ""
    series: str = ""
    instance: str = ""
    gap: str = ""

    def __str__(self) -> str:
        pairs = (("instance", self.instance), ("series", self.series), ("study", self.study))
        uids = " of ".join(f"{level} {uid}" for level, uid in pairs if uid)
        return " of ".join(filter(None, (self.gap, uids)))


@dataclass(frozen=True)
class ArchiveStudy:
    """A study. instances: their number. day: of the study, "" without one. patient: its identifier.

    None where the archive does not say.
    """

    uid: str
    instances: int | None = None
    day: str | None = None
    patient: str | None = None


@dataclass(frozen=True)
class ArchiveSeries:
    """A series. modality, body_part: "" if the archive does not say."""

    uid: str
    modality: str = ""
    body_part: str = ""


class ItemRefused(Exception):
    """The archive answers, but not with one item: an instance, a study, or a page of a list.

    is_missing: the archive does not have it (404, 410). may_be_split: a smaller part of the list may be answered.
    """

    def __init__(self, reason: str, is_missing: bool = False, may_be_split: bool = False) -> None:
        super().__init__(reason)
        self.is_missing, self.may_be_split = is_missing, may_be_split


class ArchiveDenied(ArchiveFailed):
    """The archive refuses the credentials, or wants some: no further request would be answered."""


@dataclass(frozen=True)
class StudyFilter:
    """Studies and series to add. modalities, body_parts: any if empty. since, until: study dates, YYYYMMDD or ""."""

    modalities: tuple[str, ...] = ()
    body_parts: tuple[str, ...] = ()
    since: str = ""
    until: str = ""

    def query(self) -> dict[str, str]:
        """Return the matching attributes of a QIDO-RS request for studies."""
        attributes = {"StudyDate": f"{self.since}-{self.until}"} if self.since or self.until else {}
        if len(self.modalities) == 1:
            attributes["ModalitiesInStudy"] = self.modalities[0]
        return attributes

    def matches_study(self, study: ArchiveStudy) -> bool:
        """Return whether the date of a study matches; an archive that lists it without its date has compared it.

        A study that has no date matches no range, as in a query.
        """
        if study.day is None or not (self.since or self.until):
            return True
        return bool(study.day) and self.since <= study.day <= (self.until or "99999999")

    def matches(self, series: ArchiveSeries) -> bool:
        """Return whether a series matches; attributes that the archive leaves out match anything."""
        pairs = ((self.modalities, series.modality), (self.body_parts, series.body_part))
        return all(not allowed or not value or value in allowed for allowed, value in pairs)


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
