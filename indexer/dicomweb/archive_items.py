"""Items of an archive by their UIDs, and the failure of one of them."""

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
