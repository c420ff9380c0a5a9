"""One way through an archive: every instance that matches and is not there yet."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from threading import Event

from indexer.dicom.instance import Fate
from indexer.dicom.intake import Intake
from indexer.dicomweb.archive import Archive, NotGiven, Study

AT_ONCE = 256  # instances looked up and fetched together
WITHOUT_IMAGES = frozenset(  # modalities (PS3.16, CID 29) whose objects have no pixels
    (
        "SR",
        "PR",
        "KO",
        "RTSTRUCT",
        "RTPLAN",
        "RTRECORD",
        "REG",
        "FID",
        "AU",
        "ECG",
        "EPS",
        "HD",
        "PLAN",
        "DOC",
    )
)


@dataclass(frozen=True)
class Filters:
    """modalities, body_parts: any where empty. since, until: study dates, YYYYMMDD or ""."""

    modalities: tuple[str, ...] = ()
    body_parts: tuple[str, ...] = ()
    since: str = ""
    until: str = ""

    def of_studies(self) -> dict[str, str]:
        """What the archive is asked to match."""
        filters = {"StudyDate": f"{self.since}-{self.until}"} if self.since or self.until else {}
        if len(self.modalities) == 1:
            filters["ModalitiesInStudy"] = self.modalities[0]
        return filters


class Crawl:
    """Fetches `jobs` instances at a time. stop: set to end it between two of them.

    refused(SOP Instance UID, reason) is told of every instance that is not taken.
    """

    def __init__(
        self,
        archive: Archive,
        intake: Intake,
        filters: Filters,
        *,
        jobs: int,
        stop: Event,
        progress: Callable[[], None] = lambda: None,
        refused: Callable[[str, str], None] = lambda uid, reason: None,
    ) -> None:
        self.archive = archive
        self.intake = intake
        self.filters = filters
        self.jobs = jobs
        self.stop = stop
        self.progress = progress
        self.refused = refused
        self._done: dict[str, int] = {}  # studies by their number of instances
        self._met: set[str] = set()  # instances that left no image of their own; to be fetched once only

    def __call__(self) -> None:
        """All studies that match; raises ArchiveFailed, and what was fetched until then is kept."""
        for study in self.archive.studies(self.filters.of_studies()):
            if self.stop.is_set():
                return
            if study.instances is None or self._done.get(study.uid) != study.instances:
                self.study(study)

    def study(self, study: Study) -> None:
        """All series of a study that match."""
        for series in self.archive.series(study.uid):
            wanted = self.filters.modalities, self.filters.body_parts
            said = series.modality, series.body_part
            if any(names and one and one not in names for names, one in zip(wanted, said, strict=True)):
                continue
            uids = self.archive.instances(study.uid, series.uid)
            if series.modality in WITHOUT_IMAGES:
                found = set(uids) - self._met
                self._met |= found
                self.intake.count_skipped(Fate.no_image, len(found))
                continue
            while part := list(islice(uids, AT_ONCE)):
                self._fetch(study.uid, series.uid, part)
                if self.stop.is_set():
                    return
        if study.instances is not None:
            self._done[study.uid] = study.instances

    def _fetch(self, study: str, series: str, uids: Sequence[str]) -> None:
        known = self.intake.known(uids)
        self.intake.count_skipped(Fate.known, len(known - self._met))
        self._met |= known
        missing = [uid for uid in uids if uid not in self._met]
        with ThreadPoolExecutor(self.jobs) as threads:
            for _ in _results(threads, lambda uid: self._one(study, series, uid), missing):
                self.progress()

    def _one(self, study: str, series: str, uid: str) -> None:
        if self.stop.is_set():
            return
        try:
            outcome = self.intake.add(self.archive.fetch(study, series, uid), uid)
        except NotGiven as error:
            self.intake.count_skipped(Fate.failed, 1)
            self.refused(uid, str(error))
            return
        if outcome.fate not in (Fate.full, Fate.failed):
            self._met.add(uid)
        if outcome.fate in (Fate.unreadable, Fate.full, Fate.failed, Fate.no_image, Fate.left_out):
            self.refused(uid, outcome.reason)


def _results(threads: ThreadPoolExecutor, work: Callable[[str], None], uids: Iterable[str]) -> Iterable[None]:
    """As map, except that a failure leaves what has not begun undone."""
    running = [threads.submit(work, uid) for uid in uids]
    try:
        for one in running:
            yield one.result()
    finally:
        for one in running:
            one.cancel()
