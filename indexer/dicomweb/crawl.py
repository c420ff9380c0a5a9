"""Crawl an archive for instances that match and are not in the collection yet."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from threading import Event

from cbir.commands.printable import echo
from cbir.errors import ArchiveFailed
from indexer.dicom.describe_instance import Fate
from indexer.dicom.intake import Intake
from indexer.dicomweb.dicomweb_archive import ArchiveSeries, ArchiveStudy, DicomwebArchive, InstanceRefused
from indexer.dicomweb.orthanc_changes import OrthancChanges
from indexer.index_summary import ReportRefusal

BATCH = 256  # instances looked up and fetched together
# Modalities (PS3.16, CID 29) whose objects have no pixels
WITHOUT_IMAGES = {"SR", "PR", "KO", "RTSTRUCT", "RTPLAN", "RTRECORD", "REG", "FID", "PLAN", "DOC"}
WITHOUT_IMAGES |= {"AU", "ECG", "EPS", "HD"}  # waveforms
REPORTED = (Fate.unreadable, Fate.full, Fate.failed, Fate.no_image, Fate.left_out)


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

    def matches(self, series: ArchiveSeries) -> bool:
        """Return whether a series matches; attributes that the archive leaves out match anything."""
        pairs = ((self.modalities, series.modality), (self.body_parts, series.body_part))
        return all(not allowed or not value or value in allowed for allowed, value in pairs)


@dataclass(eq=False)
class Crawl:
    """Fetches instances and adds them.

    Parameters
    ----------
    archive : DicomwebArchive
        Archive to list and fetch from.
    intake : Intake
        Takes the instances.
    study_filter : StudyFilter
        Studies and series to add.
    jobs : int
        Instances fetched at a time.
    stop : Event
        Set to end the crawl between two instances.
    report_refusal : callable
        Called with the SOP Instance UID and the reason of every instance that is not added.
    show_progress : callable
        Called with the number of instances seen so far, added or not; from several threads.
    """

    archive: DicomwebArchive
    intake: Intake
    study_filter: StudyFilter
    jobs: int
    stop: Event
    report_refusal: ReportRefusal = lambda uid, reason: None
    show_progress: Callable[[int], None] = lambda instances: None
    # studies with their number of instances
    _done: dict[str, int] = field(default_factory=dict, init=False)
    # instances that need not be fetched again, added or not
    _seen: set[str] = field(default_factory=set, init=False)

    def __call__(self) -> None:
        """Crawl all studies that match. Raises ArchiveFailed; what was fetched until then stays."""
        for study in self.archive.studies(self.study_filter.query()):
            if self.stop.is_set():
                return
            if study.instances is None or self._done.get(study.uid) != study.instances:
                self.crawl_study(study)

    def watch(self, orthanc: OrthancChanges | None, seconds: float) -> None:
        """Check every `seconds` for new studies until `stop`: those that `orthanc` announces, or all.

        An archive that stops answering is reported once.
        """
        reported = False
        while not self.stop.wait(seconds):
            try:
                if orthanc is None:
                    self()
                else:
                    for uid in orthanc.stable_studies():
                        self.crawl_study(ArchiveStudy(uid))
                reported = False
            except ArchiveFailed as error:
                if not reported:
                    echo(f"cbir: {error}; trying again", err=True)
                reported = True

    def crawl_study(self, study: ArchiveStudy) -> None:
        """Add all series of a study that match."""
        for series in self.archive.series(study.uid):
            if not self.study_filter.matches(series):
                continue
            uids = self.archive.instances(study.uid, series.uid)
            if series.modality in WITHOUT_IMAGES:
                new = set(uids) - self._seen
                self._seen |= new
                self.intake.count_skipped(Fate.no_image, len(new))
                continue
            while batch := list(islice(uids, BATCH)):
                self._add_batch(study.uid, series.uid, batch)
                if self.stop.is_set():
                    return
        if study.instances is not None:
            self._done[study.uid] = study.instances

    def _add_batch(self, study: str, series: str, uids: Sequence[str]) -> None:
        existing = self.intake.known_instances(uids)
        self.intake.count_skipped(Fate.existing, len(existing - self._seen))
        self._seen |= existing
        missing = [uid for uid in uids if uid not in self._seen]
        with ThreadPoolExecutor(self.jobs) as threads:  # after a failure nothing new begins
            list(threads.map(partial(self._add, study, series), missing))
        self._show()

    def _show(self) -> None:
        self.show_progress(self.intake.count())

    def _add(self, study: str, series: str, uid: str) -> None:
        if self.stop.is_set():
            return
        self._show()
        try:
            outcome = self.intake.add(self.archive.fetch(study, series, uid), uid)
        except InstanceRefused as error:
            self.intake.count_skipped(Fate.failed, 1)
            self.report_refusal(uid, str(error))
            return
        if outcome.fate not in (Fate.full, Fate.failed):
            self._seen.add(uid)
        if outcome.fate in REPORTED:
            self.report_refusal(uid, outcome.reason)
