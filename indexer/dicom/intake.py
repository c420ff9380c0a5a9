"""The way of instances into a collection: described side by side, committed together, answered once on the disk."""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Lock, Thread

from sqlalchemy import Connection, insert

from cbir.errors import CollectionBusy, StorageFull
from cbir.images import Limits
from cbir.store import Collection, instances, originals, schema
from cbir.store.model import FOLDER as MODEL
from cbir.store.writer import Added, Entry, Writer
from indexer.dicom.instance import Described, Fate, Task
from indexer.dicom.options import Choice
from indexer.dicom.workers import Workers

MOST = 256  # instances committed together
IDLE_SECONDS = 2.0  # without a new instance: then the snapshot is looked at
RENEW_SECONDS = 60.0  # at least as often while instances keep coming
ENOUGH = 256  # images that statistics are learnt from while more are coming
BUSY_SECONDS = 20.0  # for another writer to end

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What became of an instance, and why where it was not stored."""

    fate: Fate
    reason: str = ""


@dataclass(frozen=True)
class _Waiting:
    data: bytes
    described: Described
    answer: "Future[Outcome]"


class Intake:
    """Takes instances into an open collection. Thread-safe; `close` ends it.

    counts: instances by fate. keep_originals: whether their files are kept too; store_thumbnails:
    whether small pictures are, which an archive shows as well.
    """

    def __init__(
        self,
        collection: Collection,
        *,
        choice: Choice,
        limits: Limits,
        jobs: int,
        who: str,
        keep_originals: bool = False,
        store_thumbnails: bool = True,
    ) -> None:
        self.collection = collection
        self.limits = limits
        self.who = who
        self.keep_originals = keep_originals
        self.store_thumbnails = store_thumbnails
        self.counts: Counter[Fate] = Counter()
        self._counting = Lock()
        model = collection.folder / MODEL
        task = Task(
            collection.profile.descriptor,
            collection.secret,
            limits,
            choice,
            model if model.is_dir() else None,
        )
        self._workers = Workers(task, jobs)
        self._queue: Queue[_Waiting | None] = Queue()
        self._stored = 0  # images since the snapshot was last looked at
        self._looked = time.monotonic()
        self._thread = Thread(target=self._work, name="commits", daemon=True)
        self._thread.start()

    def known(self, uids: Sequence[str]) -> set[str]:
        """Those of the SOP Instance UIDs that are in the collection."""
        with self.collection.engine.connect() as connection:
            return instances.known(connection, uids)

    def add(self, data: bytes, uid: str = "") -> Outcome:
        """Take in the bytes of a DICOM file; returns once it is on the disk, or with the reason why it is not.

        uid: its SOP Instance UID, where the caller knows it: then one that is there is not even decoded.
        """
        if uid and self.known([uid]):
            return self._count(Outcome(Fate.known))
        described = self._workers.describe(data)
        if described.fate is not Fate.stored:
            return self._count(Outcome(described.fate, described.reason))
        if uid and any(record.instance != uid for record in described.records):
            return self._count(Outcome(Fate.unreadable, "has another SOP Instance UID than was said"))
        answer: Future[Outcome] = Future()
        self._queue.put(_Waiting(data, described, answer))
        return self._count(answer.result())

    def count_skipped(self, fate: Fate, number: int) -> None:
        """Count instances that nobody needed to fetch."""
        with self._counting:
            self.counts[fate] += number

    def close(self) -> None:
        """Commit what waits, renew the snapshot where it is time, and end."""
        self._queue.put(None)
        self._thread.join()
        self._workers.close()

    def _count(self, outcome: Outcome) -> Outcome:
        self.count_skipped(outcome.fate, 1)
        return outcome

    def _work(self) -> None:
        open_ = True
        while open_:
            batch = self._batch()
            open_ = None not in batch
            waiting = [one for one in batch if one is not None]
            if waiting:
                self._answer(waiting)
            self._renew(idle=not waiting)

    def _batch(self) -> list[_Waiting | None]:
        """All that wait, or nothing after a while: what comes during one commit is the next."""
        found: list[_Waiting | None] = []
        try:
            found.append(self._queue.get(timeout=IDLE_SECONDS))
            while len(found) < MOST and found[-1] is not None:
                found.append(self._queue.get_nowait())
        except Empty:
            pass
        return found

    def _answer(self, waiting: Sequence[_Waiting]) -> None:
        try:
            outcomes = self._commit(waiting)
        except (StorageFull, CollectionBusy) as error:
            outcomes = [Outcome(Fate.full, str(error))] * len(waiting)
        except Exception as error:  # the sender keeps what was not acknowledged, and sends it again
            log.warning("instances could not be stored: %s", type(error).__name__)
            outcomes = [Outcome(Fate.failed, f"could not be stored ({type(error).__name__})")] * len(waiting)
        for one, outcome in zip(waiting, outcomes, strict=True):
            one.answer.set_result(outcome)

    def _commit(self, waiting: Sequence[_Waiting]) -> list[Outcome]:
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                with self.collection.writer(self.who) as writer:
                    return self._write(writer, waiting)
            except CollectionBusy:  # a deletion or the service: they are short
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _write(self, writer: Writer, waiting: Sequence[_Waiting]) -> list[Outcome]:
        there = self.known([record.instance for one in waiting for record in one.described.records[:1]])
        new: list[_Waiting] = []
        known = []
        for one in waiting:
            instance = one.described.records[0].instance
            known.append(instance in there)
            if instance not in there:
                new.append(one)
                there.add(instance)
        entries: list[Entry] = [
            entry for one in new for entry in zip(one.described.records, one.described.vectors, strict=True)
        ]

        def also(connection: Connection, added: Added) -> None:
            self._keep(writer, connection, new, added)

        added = writer.add(entries, also=also)
        self._stored += len(added.ids)
        each = iter(added.each)
        fates = iter([_fate([next(each)[0] for _ in one.described.records]) for one in new])
        return [Outcome(Fate.known) if was else Outcome(next(fates)) for was in known]

    def _keep(self, writer: Writer, connection: Connection, new: Sequence[_Waiting], added: Added) -> None:
        """Thumbnails of the images that are new, and their files where wanted, in the same transaction."""
        each = iter(added.each)
        rows = []
        for one in new:
            fresh = False
            for picture in one.described.pictures:
                what, image_id = next(each)
                if what == "added" and image_id:
                    fresh = True
                    if self.store_thumbnails:
                        rows.append({"number": added.numbers[image_id], "picture": picture})
            if fresh and self.keep_originals:
                originals.keep(writer.folder, one.data)
        if rows:
            connection.execute(insert(schema.thumbnails), rows)

    def _renew(self, idle: bool) -> None:
        """A new snapshot where too much has changed, when nobody waits; what was added is safe without it."""
        if not self._stored:
            return
        late = time.monotonic() - self._looked > RENEW_SECONDS
        if not idle and not (late and self._stored >= ENOUGH):
            return
        try:
            if self.collection.statistics() or len(self.collection) >= ENOUGH:
                with self.collection.writer(self.who) as writer:
                    writer.finish()
            self._stored, self._looked = 0, time.monotonic()
        except CollectionBusy:
            pass  # next time
        except Exception as error:  # whatever it is: this thread answers all that comes
            log.warning("no new snapshot after adding images: %s", type(error).__name__)
            self._stored = 0


def _fate(outcomes: Sequence[str]) -> Fate:
    """Of an instance, from what became of its frames: a picture that is there already is in the collection."""
    if "added" in outcomes or "updated" in outcomes:
        return Fate.stored
    return Fate.known if "duplicate" in outcomes else Fate.deleted_earlier
