"""Selection of the studies and series of an archive, from lists and announcements alike."""

from dataclasses import dataclass

from indexer.dicomweb.archive_items import ArchiveSeries, ArchiveStudy


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
