"""DICOM instances into a collection: described in parallel, committed together, acknowledged once on disk."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from queue import Empty, Queue
from threading import Lock, Thread
from typing import TYPE_CHECKING

from cbir.errors import AccessDenied, CollectionBusy, CollectionDamaged, StorageFull
from cbir.evaluation.auto_choice import ChoiceUpdater
from cbir.images import Limits
from cbir.ingest.description import DescribeTask
from cbir.ingest.intake_check import (
    STATISTICS_IMAGES,
    IntakeCheck,
    ReceivedFile,
    add_received_files,
    select_new_instances,
    with_other_pictures,
)
from cbir.ingest.process_memory import SharedBytes, share_bytes
from cbir.ingest.process_pool import ProcessPool, WorkerDied, WorkerTimedOut, prepare_to_decode
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.records import originals
from cbir.store.records.add_transaction import Added
from cbir.store.writing.writer import Writer
from cbir.system.threads import cores
from indexer.describe_instance import (
    Fate,
    InstanceFilter,
    InstanceOutcome,
    InstanceTask,
    describe_shared_instance,
)

if TYPE_CHECKING:
    from indexer.ray_cluster.ray_pool import RayPool

    InstancePool = ProcessPool[SharedBytes, InstanceOutcome] | RayPool[SharedBytes, InstanceOutcome]

COMMIT_INSTANCES = 256  # most that are committed together
IDLE_SECONDS = 2.0  # without a new instance: then the snapshot is checked
RENEW_SECONDS = 60.0  # at least as often while instances keep coming
BUSY_SECONDS = 20.0  # to wait for another writer
CRASHED = InstanceOutcome(Fate.unreadable, "makes its decoder crash, or needs too much memory")
TOO_SLOW = InstanceOutcome(Fate.unreadable, "takes longer to decode than index_decode_seconds allows")
OTHER_PICTURE = InstanceOutcome(
    Fate.other_picture,
    "has another picture than the collection has under its SOP Instance UID; delete that first",
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _PendingInstance:
    file: ReceivedFile
    outcome: "Future[InstanceOutcome]"


class Intake:
    """Adds instances to an open collection. Thread-safe; `close` ends it. counts: instances by fate.

    Parameters
    ----------
    collection : Collection
        Open for reading; each commit takes its writer.
    instance_filter : InstanceFilter
        Instances and frames to add.
    limits : Limits
        Largest instances.
    jobs : int or None
        Processes that describe; None: the number of cores.
    who : str
        Name in the collection's history.
    settings : Settings
        Device, and whether files and thumbnails are stored.
    on_cluster : bool
        Describe on the Ray cluster that is connected; `jobs` is per node then.
    """

    def __init__(
        self,
        collection: Collection,
        *,
        instance_filter: InstanceFilter,
        limits: Limits,
        jobs: int | None,
        who: str,
        settings: Settings,
        on_cluster: bool = False,
    ) -> None:
        self.collection, self.limits, self.who, self.settings = collection, limits, who, settings
        self.counts: Counter[Fate] = Counter()
        self._counts_lock = Lock()
        describe = DescribeTask.of_collection(collection, settings, limits, settings.index_decode_seconds)
        task = InstanceTask(describe, instance_filter, settings.store_thumbnails)
        self._pool = _pool_on_cluster(task, jobs) if on_cluster else _pool_here(task, jobs or cores())
        self._share: Callable[[bytes], AbstractContextManager[SharedBytes]]
        self._share = nullcontext if on_cluster else share_bytes
        self.jobs = self._pool.jobs
        self._queue: Queue[_PendingInstance | None] = Queue()
        self._choices = ChoiceUpdater()
        self._check = IntakeCheck(collection, settings.intake)
        self._stored = 0  # images since the snapshot was last checked
        self._checked = time.monotonic()
        self._thread = Thread(target=self._commit_all, name="commits", daemon=True)
        self._thread.start()

    def add(self, data: bytes, uid: str = "") -> InstanceOutcome:
        """Add the bytes of a DICOM file; return once they are on disk, or refused.

        uid: SOP Instance UID, if the caller knows it: a file that is in the collection is not even decoded then.
        """
        if uid and (uid, originals.source_of(data)) in self.collection.known_files([uid]):
            return self._count(InstanceOutcome(Fate.existing))
        described = self.describe(data)
        if described.fate is not Fate.stored:
            return self._count(described)
        if uid and any(record.instance != uid for record in described.file.records):
            return self._count(
                InstanceOutcome(Fate.unreadable, "has another SOP Instance UID than the sender says")
            )
        outcome: Future[InstanceOutcome] = Future()
        self._queue.put(_PendingInstance(ReceivedFile(data, described.file), outcome))
        return self._count(outcome.result())

    def count_skipped(self, fate: Fate, number: int) -> None:
        """Count `number` instances that were not fetched."""
        with self._counts_lock:
            self.counts[fate] += number

    def count(self) -> int:
        """Return the number of instances seen so far, added or not."""
        with self._counts_lock:
            return self.counts.total()

    def close(self) -> None:
        """Commit what is pending, renew the snapshot if due, and end the processes."""
        self._queue.put(None)
        self._thread.join()
        self._pool.close()

    def describe(self, data: bytes) -> InstanceOutcome:
        """Describe the bytes of a DICOM file, and store nothing."""
        with self._share(data) as shared:
            try:
                return self._pool.run(shared)
            except WorkerTimedOut:
                return TOO_SLOW
            except WorkerDied:
                return CRASHED

    def _count(self, outcome: InstanceOutcome) -> InstanceOutcome:
        self.count_skipped(outcome.fate, 1)
        return outcome

    def _commit_all(self) -> None:
        open_ = True
        while open_:
            batch = self._next_batch()
            open_ = None not in batch
            pending = [instance for instance in batch if instance is not None]
            if pending:
                self._commit(pending)
            self._renew_snapshot(idle=not pending)

    def _next_batch(self) -> list[_PendingInstance | None]:
        """Return all that are pending, or nothing after a while: what comes during one commit is the next."""
        batch: list[_PendingInstance | None] = []
        try:
            batch.append(self._queue.get(timeout=IDLE_SECONDS))
            while len(batch) < COMMIT_INSTANCES and batch[-1] is not None:
                batch.append(self._queue.get_nowait())
        except Empty:
            pass
        return batch

    def _commit(self, pending: Sequence[_PendingInstance]) -> None:
        for instance, outcome in zip(pending, self._stored_or_refused(pending), strict=True):
            instance.outcome.set_result(outcome)

    def _stored_or_refused(self, pending: Sequence[_PendingInstance]) -> list[InstanceOutcome]:
        try:
            return self._write_when_free(pending)
        except (StorageFull, CollectionBusy) as error:
            return [InstanceOutcome(Fate.full, str(error))] * len(pending)
        except Exception as error:  # the sender keeps what was not acknowledged, and sends it again
            is_of_collection = isinstance(error, CollectionDamaged | AccessDenied)
            if len(pending) > 1 and not is_of_collection:  # one of them may be the reason
                return [outcome for instance in pending for outcome in self._stored_or_refused([instance])]
            cause = str(error) if is_of_collection else type(error).__name__
            log.warning("instances could not be stored: %s", cause)
            reason = f"could not be stored ({type(error).__name__})"
            return [InstanceOutcome(Fate.failed, reason)] * len(pending)

    def _write_when_free(self, pending: Sequence[_PendingInstance]) -> list[InstanceOutcome]:
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                with self.collection.writer(self.who) as writer:
                    return self._write(writer, pending)
            except CollectionBusy:  # a deletion or the service: they are short
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _write(self, writer: Writer, pending: Sequence[_PendingInstance]) -> list[InstanceOutcome]:
        uids = [instance.file.description.records[0].instance for instance in pending]
        is_new = select_new_instances(uids, self.collection.known_instances(uids))
        files = [instance.file for instance, new in zip(pending, is_new, strict=True) if new]
        added = add_received_files(
            writer, files, keep_originals=self.settings.keep_originals, intake=self._check
        )
        self._stored += len(added.ids)
        outcomes = iter(_outcomes(files, added))
        again = [instance.file for instance, new in zip(pending, is_new, strict=True) if not new]
        changed = iter(with_other_pictures(self.collection, again))
        return [
            next(outcomes) if new else OTHER_PICTURE if next(changed) else InstanceOutcome(Fate.existing)
            for new in is_new
        ]

    def _renew_snapshot(self, idle: bool) -> None:
        """Write a new snapshot if too much has changed and no instance is pending. What was added is safe without."""
        if not self._stored:
            return
        late = time.monotonic() - self._checked > RENEW_SECONDS
        if not idle and not (late and self._stored >= STATISTICS_IMAGES):
            return
        try:
            if self.collection.statistics() or len(self.collection) >= STATISTICS_IMAGES:
                with self.collection.writer(self.who) as writer:
                    writer.finish()
                self._choices.wake(self.collection)
            self._stored, self._checked = 0, time.monotonic()
        except CollectionBusy:
            pass  # next time
        except Exception as error:  # this thread must go on: it acknowledges every instance
            log.warning("no new snapshot after adding images: %s", type(error).__name__)
            self._stored = 0


def _pool_here(task: InstanceTask, jobs: int) -> "InstancePool":
    function = partial(describe_shared_instance, task=task)
    pool: ProcessPool[SharedBytes, InstanceOutcome] = ProcessPool(
        function, jobs, prepare_to_decode, task.describe.seconds
    )
    pool.start()
    return pool


def _pool_on_cluster(task: InstanceTask, jobs: int | None) -> "InstancePool":
    from indexer.ray_cluster.ray_pool import RayPool

    return RayPool(describe_shared_instance, task, jobs)


def _outcomes(files: Sequence[ReceivedFile], added: Added) -> Iterator[InstanceOutcome]:
    """Yield the outcome of each file."""
    end = 0
    for file in files:
        start, end = end, end + len(file.description.records)
        outcomes = added.outcomes[start:end]
        others = [
            added.outcomes[position][1] for position in range(start, end) if position in added.other_patients
        ]
        reason = f"has the pixels of an image of another patient, {others[0]}, which stays" if others else ""
        yield InstanceOutcome(_fate([kind for kind, _ in outcomes]), reason)


def _fate(outcomes: Sequence[str]) -> Fate:
    """Return the fate of an instance from the outcomes of its frames: a duplicate is in the collection."""
    if "quarantined" in outcomes:
        return Fate.quarantined
    if "added" in outcomes or "updated" in outcomes:
        return Fate.stored
    return Fate.existing if "duplicate" in outcomes else Fate.deleted_earlier
