"""Crawl an archive for instances that match and are not in the collection yet."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from threading import Event

from cbir.errors import ArchiveFailed
from cbir.system.console import echo
from indexer.dicom.describe_instance import Fate
from indexer.dicom.intake import Intake
from indexer.dicomweb.archive_items import ArchiveDenied, ArchiveItem, ItemRefused
from indexer.dicomweb.dicomweb_archive import ArchiveStudy, DicomwebArchive
from indexer.dicomweb.orthanc_changes import OrthancChanges
from indexer.dicomweb.postponed_studies import PostponedStudies
from indexer.dicomweb.refused_items import RefusedItems
from indexer.dicomweb.study_filter import StudyFilter

BATCH = 256  # instances looked up and fetched together
# Modalities (PS3.16, CID 29) whose objects have no pixels
WITHOUT_IMAGES = {"SR", "PR", "KO", "RTSTRUCT", "RTPLAN", "RTRECORD", "REG", "FID", "PLAN", "DOC"}
WITHOUT_IMAGES |= {"AU", "ECG", "EPS", "HD"}  # waveforms
NOT_WANTED = (Fate.no_image, Fate.left_out)
MAY_ARRIVE = (Fate.full, Fate.failed)


@dataclass(eq=False)
class Crawl:
    """Fetches instances and adds them; one that fails is named, and the others follow.

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
    refused : RefusedItems
        Names what is not added.
    show_progress : callable
        Called with the number of instances seen so far, added or not; from several threads.
    retry_seconds : float
        Until a watch tries a study again of which something was refused; each further pause is twice as long.
    """

    archive: DicomwebArchive
    intake: Intake
    study_filter: StudyFilter
    jobs: int
    stop: Event
    refused: RefusedItems = field(default_factory=RefusedItems)
    show_progress: Callable[[int], None] = lambda instances: None
    retry_seconds: float = 60.0
    # studies with their number of instances
    _done: dict[str, int] = field(default_factory=dict, init=False)
    # instances that need not be fetched again, added or not
    _seen: set[str] = field(default_factory=set, init=False)
    _postponed: PostponedStudies = field(init=False)
    _gaps: set[ArchiveItem] = field(default_factory=set, init=False)  # of the list of studies
    _is_complete: bool = field(default=True, init=False)  # the study under way, so far

    def __post_init__(self) -> None:
        self._postponed = PostponedStudies(self.retry_seconds)
        self.archive.repeated.stop = self.stop
        self.archive.report_gap = self._refuse

    def __call__(self) -> None:
        """Crawl all studies that match. Raises ArchiveFailed; what was fetched until then stays."""
        self._gaps.clear()
        try:
            self._crawl(self.archive.studies(self.study_filter.query()))
        except ArchiveFailed:
            if not self.stop.is_set():
                raise
        if not self.stop.is_set():
            self._arrived(self.refused.of_study("") - self._gaps)

    def watch(self, orthanc: OrthancChanges | None, seconds: float) -> None:
        """Check every `seconds` for new studies until `stop`: those that `orthanc` announces, or all.

        An archive that stops answering is reported once; one that refuses the credentials ends the watch. Studies of
        which something was refused are tried again after pauses that grow.
        """
        reported = False
        while not self.stop.wait(seconds):
            try:
                for study in self._postponed.due():
                    self.crawl_study(study)
                if orthanc is None:
                    self()
                else:
                    self._crawl(orthanc.stable_studies(), announced=True)
                reported = False
            except ArchiveDenied:
                raise
            except ArchiveFailed as error:
                if not reported and not self.stop.is_set():
                    echo(f"cbir: {error}; trying again", err=True)
                reported = True

    def _crawl(self, studies: Iterable[ArchiveStudy], announced: bool = False) -> None:
        for study in studies:
            if self.stop.is_set():
                return
            if not self.study_filter.matches_study(study):
                continue
            if study.instances is not None and self._done.get(study.uid) == study.instances:
                continue
            if announced or not self._postponed.waits(study):
                self.crawl_study(study)

    def crawl_study(self, study: ArchiveStudy) -> None:
        """Add all series of a study that match; what is refused is named and tried again by a watch."""
        self._is_complete = True
        item = ArchiveItem(study.uid)
        try:
            self._add_study(study)
        except ItemRefused as error:
            if error.is_missing:
                self.intake.count_skipped(Fate.gone, 1)
                self.refused.report(item, "gone: it was deleted from the archive after it was listed")
            else:
                self._refuse(item, str(error))
        if self.stop.is_set():
            return
        if not self._is_complete:
            self._postponed.postpone(study)
            return
        self._postponed.remove(study)
        self._arrived(self.refused.of_study(study.uid))  # or no longer there
        if study.instances is not None:
            self._done[study.uid] = study.instances

    def _add_study(self, study: ArchiveStudy) -> None:
        has_series = False
        for series in self.archive.series(study.uid):
            has_series = True
            if not self.study_filter.matches(series):
                continue
            uids = self.archive.instances(study.uid, series.uid)
            try:
                if series.modality in WITHOUT_IMAGES:
                    new = set(uids) - self._seen
                    self._seen |= new
                    self.intake.count_skipped(Fate.no_image, len(new))
                    continue
                while batch := list(islice(uids, BATCH)):
                    self._add_batch(ArchiveItem(study.uid, series.uid), batch)
                    if self.stop.is_set():
                        return
            except ItemRefused as error:
                self._refuse(ArchiveItem(study.uid, series.uid), f"cannot be listed: {error}")
        if not has_series and self._is_complete:
            raise ItemRefused("the archive has no series of it", is_missing=True)

    def _add_batch(self, series: ArchiveItem, uids: Sequence[str]) -> None:
        existing = self.intake.known_instances(uids)
        self.intake.count_skipped(Fate.existing, len(existing - self._seen))
        self._seen |= existing
        missing = [uid for uid in uids if uid not in self._seen]
        items = [ArchiveItem(series.study, series.series, uid) for uid in missing]
        failed = Event()  # after which nothing new begins

        def add(item: ArchiveItem) -> None:
            if failed.is_set():
                return
            try:
                self._add(item)
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(self.jobs) as threads:
            list(threads.map(add, items))
        self._show()

    def _show(self) -> None:
        self.show_progress(self.intake.count())

    def _add(self, item: ArchiveItem) -> None:
        if self.stop.is_set():
            return
        self._show()
        try:
            outcome = self.intake.add(self.archive.fetch(item), item.instance)
        except ItemRefused as error:
            self._refuse(item, str(error))
            return
        if outcome.fate in MAY_ARRIVE:
            self._is_complete = False
            if not self.refused.add(item, outcome.reason, outcome.fate):
                self.intake.count_skipped(outcome.fate, -1)  # counted before
            return
        self._arrived([item])
        self._seen.add(item.instance)
        if outcome.reason:  # also of the pixels of another patient's image
            self.refused.report(item, outcome.reason, show=outcome.fate not in NOT_WANTED)

    def _refuse(self, item: ArchiveItem, reason: str) -> None:
        """Note what the archive does not deliver; it is counted once."""
        self._is_complete = False
        if not item.study:
            self._gaps.add(item)
        if self.refused.add(item, reason, Fate.undelivered):
            self.intake.count_skipped(Fate.undelivered, 1)

    def _arrived(self, items: Iterable[ArchiveItem]) -> None:
        for item in items:
            if fate := self.refused.discard(item):
                self.intake.count_skipped(fate, -1)
