"""Crawl an archive for instances that match and are not in the collection yet, and try again what is refused."""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from threading import Event, Lock

from cbir.errors import ArchiveFailed
from cbir.system.console import echo
from indexer.describe_instance import Fate
from indexer.dicomweb.archive_items import ArchiveDenied, ArchiveItem, ArchiveStudy, ItemRefused, StudyFilter
from indexer.dicomweb.dicomweb_archive import DicomwebArchive
from indexer.dicomweb.orthanc_lists import OrthancChanges
from indexer.intake import Intake

LONGEST_SECONDS = 3600.0


@dataclass
class _Postponed:
    study: ArchiveStudy
    pause: float
    due: float


@dataclass
class PostponedStudies:
    """Studies of which something was not delivered.

    first_seconds: until a study is tried again; each further pause is twice as long.
    """

    first_seconds: float = 60.0
    _by_uid: dict[str, _Postponed] = field(default_factory=dict, init=False)

    def postpone(self, study: ArchiveStudy) -> None:
        """Try a study again, later than after its previous failure."""
        earlier = self._by_uid.get(study.uid)
        pause = min(2 * earlier.pause, LONGEST_SECONDS) if earlier else self.first_seconds
        self._by_uid[study.uid] = _Postponed(study, pause, time.monotonic() + pause)

    def remove(self, study: ArchiveStudy) -> None:
        """Forget a study that is complete."""
        self._by_uid.pop(study.uid, None)

    def due(self) -> list[ArchiveStudy]:
        """Return the studies whose time has come."""
        now = time.monotonic()
        return [entry.study for entry in self._by_uid.values() if entry.due <= now]

    def waits(self, study: ArchiveStudy) -> bool:
        """Return whether a study, as it is listed now, is to be tried later."""
        entry = self._by_uid.get(study.uid)
        if entry is None or entry.study.instances != study.instances:
            return False
        return entry.due > time.monotonic()


PRINTED = 10  # items of a run that are named on stderr; the report names all


@dataclass(eq=False)
class RefusedItems:
    """Names refused items on stderr and in the report. Thread-safe.

    Parameters
    ----------
    write_row : callable
        Gets study, series, instance and reason of each; a row of the report.
    most_printed : int or None
        Items that are named on stderr; None: all.
    """

    write_row: Callable[..., None] = lambda *cells: None
    most_printed: int | None = PRINTED
    _open: dict[ArchiveItem, Fate] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _printed: int = field(default=0, init=False)

    def add(self, item: ArchiveItem, reason: str, fate: Fate) -> bool:
        """Note an item that may arrive later, with its `reason` and `fate`; return False if it is noted already."""
        with self._lock:
            is_new = item not in self._open
            self._open.setdefault(item, fate)
            if is_new:
                self._name(item, reason)
            return is_new

    def report(self, item: ArchiveItem, reason: str, show: bool = True) -> None:
        """Name an `item` and its `reason` for good: it is gone, or not wanted; with `show` on stderr too."""
        with self._lock:
            self._name(item, reason, show)

    def discard(self, item: ArchiveItem) -> Fate | None:
        """Forget an item that has arrived; return the fate that it was noted with."""
        with self._lock:
            return self._open.pop(item, None)

    def of_study(self, uid: str) -> set[ArchiveItem]:
        """Return the items of a study that are noted; of "", studies that are not known."""
        with self._lock:
            return {item for item in self._open if item.study == uid}

    def _name(self, item: ArchiveItem, reason: str, show: bool = True) -> None:
        self.write_row(item.study, item.series, item.instance, f"{item.gap} {reason}".strip())
        if not show:
            return
        if self.most_printed is None or self._printed < self.most_printed:
            echo(f"cbir: {item}: {reason}", err=True)
        elif self._printed == self.most_printed:
            echo("cbir: further ones are in the file that --report names", err=True)
        self._printed += 1


BATCH = 256  # instances looked up and fetched together

# Modalities (PS3.16, CID 29) whose objects have no pixels
WITHOUT_IMAGES = {"SR", "PR", "KO", "RTSTRUCT", "RTPLAN", "RTRECORD", "REG", "FID", "PLAN", "DOC"} | {
    "AU", "ECG", "EPS", "HD",  # waveforms
}  # fmt: skip
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
        existing = self.intake.collection.known_instances(uids)
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
