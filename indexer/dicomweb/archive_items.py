"""Studies, series and instances of an archive: their UIDs, which of them are wanted, and the failure of one."""

from dataclasses import dataclass

from cbir.errors import ArchiveFailed


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
