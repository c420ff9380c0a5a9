"""Compare a collection with the archive that its images come from, and follow the archive if that is wanted."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from threading import Event

from cbir.errors import ArchiveFailed, CbirError, CollectionBusy, NotFound
from cbir.ingest.description import DescribedFile
from cbir.ingest.intake_check import IntakeCheck, ReceivedFile, add_received_files
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.erasure import erase_deleted
from cbir.store.records.records import hash_patient
from cbir.store.upkeep.archive_instances import (
    StoredInstance,
    forget_copy,
    images_with_copies,
    move_to_patient,
    sent_instances,
    sent_studies,
)
from cbir.store.upkeep.quarantine_release import refuse_images
from cbir.store.writing.writer import Writer
from indexer.describe_instance import Fate
from indexer.dicomweb.archive_items import (
    ArchiveItem,
    ArchiveStudy,
    InstanceDifference,
    ItemRefused,
    StudyFilter,
    find_difference,
)
from indexer.dicomweb.dicomweb_archive import DicomwebArchive
from indexer.intake import Intake

STUDIES = 100  # read from the collection at a time
BATCH = 32  # instances fetched, compared and written together
BUSY_SECONDS = 60.0  # to wait for another writer
WHO = "DICOMweb comparison"
DELETED, MOVED = "deleted from the archive", "moved to another study"
EQUAL, LEFT_OUT, NOT_COMPARED = "equal", "left out by option", "not compared"
ReportDifference = Callable[[ArchiveItem, str], None]


@dataclass(frozen=True)
class ComparisonOptions:
    """Options of a comparison. with_pixels: fetch every instance. apply: change the collection."""

    study_filter: StudyFilter = field(default_factory=StudyFilter)
    with_pixels: bool = True
    apply: bool = False

    @property
    def has_filter(self) -> bool:
        """True if some studies or series are left out."""
        return self.study_filter != StudyFilter()


@dataclass(eq=False)
class ArchiveComparison:
    """Walks through the studies of a collection that were sent or fetched.

    Parameters
    ----------
    collection : Collection
        Its images are compared.
    archive : DicomwebArchive
        Archive that they come from.
    intake : Intake
        Describes the instances.
    settings : Settings
        Whether originals are kept, and what the intake check does.
    options : ComparisonOptions
        What is compared, and what is done.
    jobs : int
        Instances fetched at a time.
    stop : Event
        Set to end the comparison after the instances under way.
    report : callable
        Called with each difference, and with what cannot be compared.
    show_progress : callable
        Called with the number of images compared so far.
    """

    collection: Collection
    archive: DicomwebArchive
    intake: Intake
    settings: Settings
    options: ComparisonOptions
    jobs: int
    stop: Event
    report: ReportDifference = lambda item, reason: None
    show_progress: Callable[[int], None] = lambda images: None
    counts: Counter[str] = field(default_factory=Counter, init=False)
    present_count: int = field(
        default=0, init=False
    )  # studies, copies and quarantined images that the archive has
    gone_copies: list[str] = field(default_factory=list, init=False)  # UIDs
    gone_quarantined: list[str] = field(default_factory=list, init=False)  # ids
    _has_gap: bool = field(default=False, init=False)  # in the list under way
    _missing_studies: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._check = IntakeCheck(self.collection, self.settings.intake)
        self.archive.repeated.stop = self.stop
        self.archive.report_gap = self._note_gap

    def compare_images(self) -> None:
        """Compare the images of all studies; studies that are gone are deleted by `delete_gone`."""
        for uid in self._studies():
            self._compare_study(uid)

    def delete_gone(self) -> None:
        """Delete what is gone. Raises ArchiveFailed if the archive has nothing of the collection."""
        is_all_gone = not self.present_count and not self.stop.is_set()
        if is_all_gone and (self._missing_studies or self.gone_copies or self.gone_quarantined):
            raise ArchiveFailed(
                "the archive has nothing of what the collection got; name the archive that its images come from. "
                "Nothing was deleted"
            )
        if not self.options.apply:
            return
        for uid in self._missing_studies:
            if self.stop.is_set():
                return
            if self.archive.find_study(uid) is None:  # it may have been sent again meanwhile
                self._apply_deletion(list(sent_instances(self.collection, uid).values()))
        for instance in self.gone_copies:
            with self.writer() as writer:
                forget_copy(writer, instance)
        for image_id in self.gone_quarantined:
            with suppress(NotFound), self.writer() as writer:  # released or refused meanwhile
                refuse_images(writer, [image_id])

    def _studies(self) -> Iterator[str]:
        after = ""
        while studies := sent_studies(self.collection, after, STUDIES):
            for uid in studies:
                if self.stop.is_set():
                    return
                yield uid
            after = studies[-1]

    def _compare_study(self, uid: str) -> None:
        stored = sent_instances(self.collection, uid)
        self._has_gap = False
        try:
            study = self.archive.find_study(uid)
            if study is None:
                self._compare_missing_study(uid, stored)
            elif self.options.study_filter.matches_study(study):
                self.present_count += 1
                self._compare_listed(study, stored)
            else:
                self.present_count += 1
                self.count(LEFT_OUT, len(stored))
        except ItemRefused as error:
            self.not_compared(ArchiveItem(uid), str(error), len(stored))

    def _compare_missing_study(self, uid: str, stored: dict[str, StoredInstance]) -> None:
        instances = list(stored.values())
        first = instances[0]
        if self.options.has_filter:  # what it was can no longer be asked
            self.count(LEFT_OUT, len(instances))
        elif self._has_gap or not self._is_gone(first):
            reason = "the archive does not list it, and has not deleted it"
            self.not_compared(ArchiveItem(uid), reason, len(instances))
        elif self._is_elsewhere(first):
            self.present_count += 1
            self.differ(MOVED, list(map(_item, instances)))
            self._apply_removal(instances)
        else:
            self.differ(DELETED, list(map(_item, instances)))
            self._missing_studies.append(uid)

    def _compare_listed(self, study: ArchiveStudy, stored: dict[str, StoredInstance]) -> None:
        listed: dict[str, str] = {}
        for series in self.archive.series(study.uid):
            if self.options.study_filter.matches(series):
                listed |= dict.fromkeys(self.archive.instances(study.uid, series.uid), series.uid)
        listed_series = set(listed.values())
        others = [instance for instance in stored.values() if instance.instance not in listed]
        unknown = []
        if self.options.has_filter:  # their series may be left out
            unknown = [instance for instance in others if instance.series not in listed_series]
        self.count(LEFT_OUT, len(unknown))
        self._compare_missing([instance for instance in others if instance not in unknown])
        present = [instance for uid, instance in stored.items() if uid in listed]
        if not self.options.with_pixels and self._has_patient(study, present):
            self.count(EQUAL, len(present))
            return
        for start in range(0, len(present), BATCH):
            if self.stop.is_set():
                return
            self._compare_batch(present[start : start + BATCH], listed)

    def _has_patient(self, study: ArchiveStudy, instances: Sequence[StoredInstance]) -> bool:
        """Return whether all images have the patient that the archive lists the study with."""
        if study.patient is None:
            return False
        key = hash_patient(self.collection.secret, study.patient)
        return all(frame.patient_key == key for instance in instances for frame in instance.frames)

    def _compare_missing(self, instances: Sequence[StoredInstance]) -> None:
        """Compare instances that the archive does not list in their study."""
        deleted: list[StoredInstance] = []
        moved: list[StoredInstance] = []
        for instance in instances:
            if self.stop.is_set():
                return
            try:
                if self._has_gap or not self._is_gone(instance):
                    self.not_compared(_item(instance), "the archive does not list it, and has not deleted it")
                else:
                    (moved if self._is_elsewhere(instance) else deleted).append(instance)
            except ItemRefused as error:
                self.not_compared(_item(instance), str(error))
        self.differ(MOVED, list(map(_item, moved)))
        self.differ(DELETED, list(map(_item, deleted)))
        self._apply_removal(moved)
        self._apply_deletion(deleted)

    def _is_gone(self, instance: StoredInstance) -> bool:
        """Ask for an instance itself: lists may be cut short."""
        try:
            self.archive.fetch(ArchiveItem(instance.study, instance.series, instance.instance))
        except ItemRefused as error:
            if error.is_missing:
                self.archive.check()  # a proxy answers 404 too, while the archive behind it restarts
                return True
        return False

    def _is_elsewhere(self, instance: StoredInstance) -> bool:
        now = self.archive.find_instance(instance.instance)
        return now is not None and now.study != instance.study

    def _compare_batch(self, batch: Sequence[StoredInstance], listed: dict[str, str]) -> None:
        ids = [frame.image_id for instance in batch for frame in instance.frames]
        records = self.collection.records_by_id(ids)
        labels = {image_id: record.labels for image_id, record in records.items()}
        changed: list[tuple[StoredInstance, InstanceDifference, bytes]] = []
        items = [
            ArchiveItem(instance.study, listed[instance.instance], instance.instance) for instance in batch
        ]
        with ThreadPoolExecutor(self.jobs) as threads:
            files = list(threads.map(self.read, items))
        for instance, (data, outcome) in zip(batch, files, strict=True):
            if isinstance(outcome, str):
                self.not_compared(_item(instance), outcome)
            elif difference := find_difference(instance, outcome, labels):
                changed.append((instance, difference, data))
            else:
                self.count(EQUAL)
        with self.writer() if changed and self.options.apply else nullcontext() as writer:
            for instance, difference, data in changed:
                if writer and (problem := self._apply_change(writer, difference, data)):
                    self.not_compared(_item(instance), problem)
                else:
                    self.differ(str(difference), [_item(instance)])

    def read(self, item: ArchiveItem) -> tuple[bytes, DescribedFile | str]:
        """Fetch and describe an instance; in place of the description the reason why that failed."""
        try:
            data = self.archive.fetch(item)
        except ItemRefused as error:
            return b"", str(error)
        outcome = self.intake.describe(data)
        if outcome.fate is not Fate.stored:
            return data, outcome.reason
        if any(record.instance != item.instance for record in outcome.file.records):
            return data, "the archive delivers another instance"
        return data, outcome.file

    def _apply_change(self, writer: Writer, difference: InstanceDifference, data: bytes) -> str:
        """Follow an instance; return why it cannot be written, or ""."""
        try:
            if difference.replaced:
                erase_deleted(self.settings, difference.replaced)
                add_received_files(
                    writer,
                    [ReceivedFile(data, difference.file)] if difference.file.records else [],
                    keep_originals=self.settings.keep_originals,
                    replaces=difference.replaced,
                    intake=self._check,
                )
            if difference.moved:
                move_to_patient(writer, difference.moved, data)
        except CbirError:
            raise
        except Exception as error:  # the others follow
            return f"could not be stored ({type(error).__name__})"
        return ""

    def _apply_deletion(self, instances: Sequence[StoredInstance]) -> None:
        """Delete images as `cbir collection delete` does; pixels that another instance shows may return."""
        ids = [frame.image_id for instance in instances for frame in instance.frames]
        if ids and self.options.apply:
            shared = images_with_copies(self.collection, ids)
            with self.writer() as writer:
                erase_deleted(self.settings, ids)
                writer.add([], replaces=sorted(shared))
                writer.delete([image_id for image_id in ids if image_id not in shared])

    def _apply_removal(self, instances: Sequence[StoredInstance]) -> None:
        """Remove images that the next run adds again, from where they are now."""
        ids = [frame.image_id for instance in instances for frame in instance.frames]
        if ids and self.options.apply:
            with self.writer() as writer:
                erase_deleted(self.settings, ids)
                writer.add([], replaces=ids)

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """Take the collection's writer as soon as no other process has it."""
        until = time.monotonic() + BUSY_SECONDS
        with ExitStack() as stack:
            while True:
                try:
                    writer = stack.enter_context(self.collection.writer(WHO))
                    break
                except CollectionBusy:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.1)
            yield writer

    def differ(self, difference: str, items: Sequence[ArchiveItem]) -> None:
        """Count and report a difference."""
        for item in items:
            self.report(item, difference)
        self.count(difference, len(items))

    def not_compared(self, item: ArchiveItem, reason: str, instances: int = 1) -> None:
        """Count and report `instances` of an `item` that cannot be compared for a `reason`."""
        self.report(item, f"{NOT_COMPARED}: {reason}")
        self.count(NOT_COMPARED, instances)

    def count(self, outcome: str, instances: int = 1) -> None:
        """Count instances, and show the progress."""
        self.counts[outcome] += instances
        self.show_progress(self.counts.total())

    def _note_gap(self, item: ArchiveItem, reason: str) -> None:
        self._has_gap = True
        self.report(item, reason)


def _item(instance: StoredInstance) -> ArchiveItem:
    return ArchiveItem(instance.study, instance.series, instance.instance)
