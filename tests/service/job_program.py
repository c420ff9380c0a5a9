"""A worker in a process of its own, whose jobs note when they begin and end, and whether they run twice at once.

python -m tests.service.job_program FOLDER LEASE_SECONDS COUNT
"""

import os
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event

from cbir import settings
from cbir.system.files import try_lock
from indexer.index_job import run_until_cancelled
from indexer.index_progress import JobProgress
from service.jobs.job_claims import JobCandidate
from service.jobs.job_work import JobWork, WorkerPlace
from service.jobs.job_worker import JobWorker
from service.jobs.stored_jobs import NewJob
from service.state.database import open_state

STEP_SECONDS = 0.02
HELD_STEP = 50  # is not taken while the folder has a file `hold`: a job that must be unfinished stays so


@dataclass(frozen=True)
class StepRequest:
    """A job of so many steps. collection: the folder of its notes."""

    name: str
    steps: int
    collection: Path
    sources: tuple[Path, ...] = (Path("/archive"),)


@dataclass
class StepSummary:
    steps: int
    interrupted: bool = False


def run_steps(request: StepRequest, pipe: Connection) -> None:
    """Hold the lock of the job, or note that another process does; go on where an earlier attempt ended."""
    note(request, "begins")
    with (request.collection / f"{request.name}.lock").open("a") as lock:
        if not try_lock(lock.fileno()):
            note(request, "overlaps")
        run_until_cancelled(lambda: take_steps(request, pipe), pipe)
    note(request, "ends")


def take_steps(request: StepRequest, pipe: Connection) -> StepSummary:
    done = request.collection / f"{request.name}.done"
    try:
        for step in range(done.stat().st_size if done.exists() else 0, request.steps):
            time.sleep(STEP_SECONDS)
            while step >= HELD_STEP and (request.collection / "hold").exists():
                time.sleep(STEP_SECONDS)
            with done.open("a") as file:
                file.write(".")
            pipe.send(JobProgress(step + 1, request.steps, 0))
    except KeyboardInterrupt:
        return StepSummary(done.stat().st_size, interrupted=True)
    return StepSummary(done.stat().st_size)


def note(request: StepRequest, what: str) -> None:
    line = f"{request.name} {what} {os.getpid()}\n".encode()
    notes = os.open(request.collection / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(notes, line)
    os.close(notes)


def step_job(name: str, steps: int, lane: str | None = None) -> NewJob:
    return NewJob("index", "knees", {"name": name, "steps": steps}, lane=lane)


class StepPlace(WorkerPlace):
    """Where jobs of steps can run, all others not."""

    def __init__(self, folder: Path) -> None:
        super().__init__({}, settings.load())
        self._notes = folder

    def obstacle(self, job: JobCandidate) -> str | None:
        return None if "steps" in job.request else "a worker that indexes"

    def work(self, job: JobCandidate) -> JobWork:
        request = StepRequest(job.request["name"], job.request["steps"], self._notes)
        return JobWork(run_steps, request)  # type: ignore[arg-type]


def main() -> None:
    folder, lease_seconds, count = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    worker = JobWorker(open_state(settings.load()), StepPlace(folder), count, lease_seconds, 5)
    is_stopping = Event()
    signal.signal(signal.SIGTERM, lambda *_: is_stopping.set())
    worker.start(stay=True)
    print("ready", flush=True)
    is_stopping.wait()
    worker.stop()


if __name__ == "__main__":
    main()
