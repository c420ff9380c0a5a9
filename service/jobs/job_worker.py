"""A worker: claims jobs of the state database and runs each in a process of its own."""

import atexit
import logging
import os
import socket
from contextlib import ExitStack
from threading import Event, Lock, Thread, current_thread

from cbir.errors import CollectionBusy, StorageFull
from indexer.index_job import lease_clock
from service.jobs.job_claims import JobCandidate, JobClaim, claim_job, claimable_jobs
from service.jobs.job_watch import JobWatch
from service.jobs.job_work import WorkerPlace
from service.jobs.stored_jobs import forget_files, remove_worker, save_worker
from service.state.database import StateDatabase
from service.state.schema import StateUnavailable

LEASE_SECONDS = 30.0
LOOK_SECONDS = 1.0  # between two looks for jobs
PRESENCE_SECONDS = 5.0  # between two notes that this worker is there, while jobs wait
FORGET_SECONDS = 3600.0  # between two looks for names of files whose time is over

log = logging.getLogger(__name__)


class JobWorker:
    """Threads that run jobs. Thread-safe.

    Parameters
    ----------
    database : StateDatabase
        Database of the service's state, which may be shared by others.
    place : WorkerPlace
        Collections and folders that jobs may need.
    count : int
        Jobs to run at a time; 0: none.
    lease_seconds : float
        Time after which others take a job over whose worker was lost.
    stop_seconds : float
        Time for a job to end in order when the worker stops.
    """

    def __init__(
        self,
        database: StateDatabase,
        place: WorkerPlace,
        count: int,
        lease_seconds: float = LEASE_SECONDS,
        stop_seconds: float = 3.0,
    ) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{id(self):x}"
        self._database, self._place, self._count = database, place, count
        self._lease_seconds, self._stop_seconds = lease_seconds, stop_seconds
        self._lock = Lock()
        self._looking: Thread | None = None
        self._running: set[Thread] = set()
        self._stays = False
        self._is_known = False  # stored as a worker
        self._next_note = self._next_forgetting = 0.0
        self._was_down = False
        self._wake, self._is_stopping = Event(), Event()

    def start(self, *, stay: bool = False) -> None:
        """Look for jobs now. stay: go on for good, else until none waits."""
        if not self._count or self._is_stopping.is_set():
            return
        with self._lock:
            self._stays = self._stays or stay
            self._wake.set()
            if self._looking is None:
                self._looking = Thread(target=self._look_for_jobs, name="jobs", daemon=True)
                self._looking.start()

    @property
    def is_running_jobs(self) -> bool:
        """True while a job runs here."""
        return bool(self._running)

    def begin_stop(self) -> None:
        """Begin to hand the running jobs back, and start no more; may be called by a signal handler."""
        self._is_stopping.set()
        self._wake.set()

    def stop(self) -> None:
        """Hand the running jobs back, so that other workers go on with them, and return when that is done."""
        self.begin_stop()
        with self._lock:
            looking = self._looking
        if looking:
            looking.join()  # first: it may be about to start a job
        with self._lock:
            running = list(self._running)
        for thread in running:
            thread.join()
        if self._is_known:
            try:
                remove_worker(self._database, self.name)
            except (StateUnavailable, StorageFull):
                log.warning("the state database cannot be told that this worker ends")

    def _look_for_jobs(self) -> None:
        while not self._is_stopping.is_set():
            self._wake.clear()
            has_waiting = self._look()
            with self._lock:
                if not (has_waiting or self._running or self._stays or self._wake.is_set()):
                    self._looking = None
                    return
            self._wake.wait(LOOK_SECONDS)

    def _look(self) -> bool:
        """Claim what can be run now; return whether jobs wait."""
        if not self._database.exists():
            return False
        try:
            candidates, busy_lanes = claimable_jobs(self._database)
            obstacles = {job.job: text for job in candidates if (text := self._obstacle(job))}
            self._note_presence(candidates, obstacles)
            for job in candidates:
                if job.job not in obstacles and job.is_due and job.lane not in busy_lanes:
                    if not self._has_room():
                        break
                    if job.lane is not None:
                        busy_lanes.add(job.lane)
                    self._claim(job)
            self._forget_files()
        except (StateUnavailable, StorageFull) as error:
            if not self._was_down:
                log.warning("jobs wait: %s", error)
            self._was_down = True
            return True
        except Exception as error:  # later jobs must run all the same
            log.error("jobs wait: %s", type(error).__name__)
            return True
        self._was_down = False
        return bool(candidates)

    def _obstacle(self, job: JobCandidate) -> str | None:
        """Return what is missing here to run a job; a collection that cannot be read holds up its own jobs only."""
        try:
            return self._place.obstacle(job)
        except Exception as error:
            return f"a worker that can read the collection {job.collection}: {type(error).__name__}"

    def _has_room(self) -> bool:
        with self._lock:
            return len(self._running) < self._count and not self._is_stopping.is_set()

    def _claim(self, job: JobCandidate) -> None:
        """Claim a job and run it in a thread, unless this process or another one is quicker to use its collection."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._place.lock(job))
            except CollectionBusy:
                return
            claimed = lease_clock()
            claim = claim_job(self._database, job, self.name, int(self._lease_seconds * 1000))
            if claim is None:
                return
            locks = stack.pop_all()
        thread = Thread(target=self._run, args=(claim, claimed, locks), name=f"job-{job.job}", daemon=True)
        with self._lock:
            if not self._running:
                atexit.register(self.stop)  # else Python would wait until all is indexed
            self._running.add(thread)
            thread.start()

    def _run(self, claim: JobClaim, claimed: float, locks: ExitStack) -> None:
        try:
            with locks:
                work = self._place.work(claim.candidate)
                limits = self._lease_seconds, self._is_stopping, self._stop_seconds
                JobWatch(self._database, claim, work, claimed, *limits).run()
        except Exception as error:  # its lease ends, and another worker tries
            log.error("the job %s could not be run: %s", claim.job, type(error).__name__)
        finally:
            with self._lock:
                self._running.remove(current_thread())
                if not self._running:
                    atexit.unregister(self.stop)
            self._wake.set()

    def _note_presence(self, candidates: list[JobCandidate], obstacles: dict[str, str]) -> None:
        """Store that this worker is there, and what it lacks; an idle one, without waiting jobs, writes nothing."""
        if candidates and lease_clock() >= self._next_note:
            self._next_note = lease_clock() + PRESENCE_SECONDS
            self._is_known = True
            save_worker(self._database, self.name, obstacles)

    def _forget_files(self) -> None:
        if lease_clock() >= self._next_forgetting:
            self._next_forgetting = lease_clock() + FORGET_SECONDS
            forget_files(self._database)
