"""Workers in processes of their own: killed, suspended, told to end; jobs that are cancelled from elsewhere."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from threading import Event, Thread

import pytest

from cbir import settings
from service.jobs import job_worker
from service.jobs.job_claims import JobCandidate
from service.jobs.job_worker import JobWorker
from service.jobs.stored_jobs import ENDED, JobRow, NewJob, add_job, load_jobs, request_cancel
from service.state.database import StateDatabase, open_state
from tests.postgresql_server import PostgresqlServer
from tests.service.conftest import ONLY_FILE
from tests.service.job_program import StepPlace, step_job

pytestmark = [
    pytest.mark.usefixtures("each_database"),
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="signals of POSIX"),
]

PATIENCE_SECONDS = 180
LEASE_SECONDS = 6.0  # a third of it without processor time loses a job, which a busy machine may cause


@pytest.fixture
def database() -> StateDatabase:
    return open_state(settings.load())


class Workers:
    """Worker processes that note what they run in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, count: int = 1, lease_seconds: float = LEASE_SECONDS) -> subprocess.Popen[str]:
        program = [
            sys.executable,
            "-m",
            "tests.service.job_program",
            self.folder,
            str(lease_seconds),
            str(count),
        ]
        process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def ready(self) -> None:
        for process in self.processes:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"

    def hold(self) -> None:
        """Keep jobs from coming to their end."""
        (self.folder / "hold").touch()

    def let_go(self) -> None:
        """Let jobs come to their end after all."""
        (self.folder / "hold").unlink()

    def notes(self) -> list[tuple[str, str]]:
        """Jobs, and what happened to them."""
        path = self.folder / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(line.split()[0], line.split()[1]) for line in lines]

    def count(self, what: str, name: str | None = None) -> int:
        return sum(each == what and name in (None, job) for job, each in self.notes())


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    (tmp_path / "notes").mkdir()
    started = Workers(tmp_path / "notes")
    yield started
    with ExitStack() as stack:
        for process in started.processes:
            stack.enter_context(process)
            process.kill()


def add(database: StateDatabase, new: NewJob) -> str:
    name = add_job(database, new, 1000)
    assert name
    return name


def job(database: StateDatabase, name: str) -> JobRow:
    (row,) = load_jobs(database, name)
    return row


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_killed_workers_lose_no_job_and_run_none_twice_at_once(
    database: StateDatabase, workers: Workers
) -> None:
    names = [add(database, step_job(str(number), 10, f"lane {number % 3}")) for number in range(6)]
    for _ in range(2):
        workers.start()
    workers.ready()
    chance = random.Random(7)
    for _ in range(3):
        time.sleep(chance.uniform(0.2, 2.5))  # a random moment is what is tested
        victim = chance.choice([each for each in workers.processes if each.poll() is None])
        victim.kill()
        victim.wait()
        workers.start()
    until(lambda: all(job(database, name).state in ENDED for name in names))
    assert workers.count("overlaps") == 0
    for number, name in enumerate(names):
        row = job(database, name)
        steps = (workers.folder / f"{number}.done").stat().st_size
        assert (row.state, steps) == ("done", 10) or (row.state, row.attempts) == ("failed", 3)
    assert sum(job(database, name).state == "done" for name in names) >= 4


def test_suspended_worker_loses_its_job_and_cannot_end_it(database: StateDatabase, workers: Workers) -> None:
    """Its job's process goes on while the watching one hangs, but no longer than the lease."""
    workers.hold()
    name = add(database, step_job("long", 300))
    first = workers.start()
    until(lambda: workers.count("begins") == 1 and job(database, name).done > 5)
    first.send_signal(signal.SIGSTOP)
    workers.start()
    until(lambda: workers.count("begins") == 2)
    assert workers.count("overlaps") == 0
    assert job(database, name).attempts == 2
    workers.let_go()
    first.send_signal(signal.SIGCONT)
    until(lambda: job(database, name).state in ENDED)
    row = job(database, name)
    assert (row.state, row.summary and row.summary["steps"]) == ("done", 300)
    assert workers.count("ends") == 1
    assert first.poll() is None  # works on


def test_worker_that_is_told_to_end_hands_its_job_back(database: StateDatabase, workers: Workers) -> None:
    workers.hold()
    name = add(database, step_job("long", 150))
    first = workers.start(lease_seconds=1000)  # waiting for its end would fail the test
    until(lambda: job(database, name).done > 5)
    first.terminate()
    assert first.wait(PATIENCE_SECONDS) == 0
    row = job(database, name)
    assert (row.state, row.attempts, row.worker) == ("waiting", 0, None)
    workers.let_go()
    workers.start()
    until(lambda: job(database, name).state in ENDED)
    row = job(database, name)
    assert (row.state, row.attempts, row.done) == ("done", 1, 150)
    assert (workers.folder / "long.done").stat().st_size == 150  # the second went on where the first stopped


def test_job_is_cancelled_wherever_it_runs(database: StateDatabase, workers: Workers) -> None:
    workers.hold()
    name = add(database, step_job("long", 5000))
    workers.start()
    until(lambda: job(database, name).done > 5)
    assert request_cancel(database, name) is None
    until(lambda: job(database, name).state == "cancelled")
    row = job(database, name)
    assert row.summary
    assert row.summary["interrupted"]
    assert 5 < row.summary["steps"] < 5000


@ONLY_FILE
def test_process_of_a_job_that_is_killed_fails_the_job(database: StateDatabase, workers: Workers) -> None:
    workers.hold()
    name = add(database, step_job("long", 5000))
    workers.start()
    until(lambda: job(database, name).done > 5)
    pid = (workers.folder / "notes").read_text().split()[2]
    os.kill(int(pid), signal.SIGTERM)  # ignored: who ends all processes of a group ends the worker, too
    until(lambda: job(database, name).done > 20)
    os.kill(int(pid), signal.SIGKILL)
    until(lambda: job(database, name).state in ENDED)
    assert job(database, name).error == "the indexing process ended with -9"


@pytest.mark.parametrize("each_database", ["postgresql"], indirect=True)
def test_while_the_database_is_down_the_job_ends_with_its_lease(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, each_database: str
) -> None:
    server = PostgresqlServer()
    try:
        monkeypatch.setenv("CBIR_STATE_DATABASE", server.new_schema())
        database = open_state(settings.load())
        workers.hold()
        name = add(database, step_job("long", 400))
        workers.start()
        until(lambda: job(database, name).done > 5)
        server.kill()
        until(lambda: _lock_is_free(workers.folder / "long.lock"))
        steps = (workers.folder / "long.done").stat().st_size
        assert steps < 400
        workers.let_go()
        server.start()
        until(lambda: _row(database, name) and job(database, name).state in ENDED)
        assert (job(database, name).state, job(database, name).attempts) == ("done", 2)
        assert workers.count("overlaps") == 0
    finally:
        server.stop()


def _lock_is_free(path: Path) -> bool:
    from cbir.system.files import try_lock

    with path.open("a") as lock:
        return try_lock(lock.fileno())


def _row(database: StateDatabase, name: str) -> list[JobRow]:
    from service.state.schema import StateUnavailable

    try:
        return load_jobs(database, name)
    except StateUnavailable:
        return []


@ONLY_FILE
def test_job_that_is_interrupted_but_not_cancelled_goes_on(database: StateDatabase, workers: Workers) -> None:
    """As by Ctrl-C, which reaches all processes of a terminal."""
    workers.hold()
    name = add(database, step_job("long", 100))
    workers.start()
    until(lambda: job(database, name).done > 5)
    pid = (workers.folder / "notes").read_text().split()[2]
    os.kill(int(pid), signal.SIGINT)
    until(lambda: workers.count("begins") == 2)
    workers.let_go()
    until(lambda: job(database, name).state in ENDED)
    row = job(database, name)
    assert (row.state, row.done, row.attempts) == ("done", 100, 1)


@ONLY_FILE
def test_worker_that_ends_while_it_claims_a_job_hands_it_back(
    database: StateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_claiming, may_claim = Event(), Event()

    def lock(_place: StepPlace, _job: JobCandidate) -> AbstractContextManager[None]:
        is_claiming.set()
        assert may_claim.wait(PATIENCE_SECONDS)
        return nullcontext()

    monkeypatch.setattr(StepPlace, "lock", lock)
    worker = JobWorker(database, StepPlace(tmp_path), 1)
    name = add(database, step_job("long", 5000))
    worker.start()
    assert is_claiming.wait(PATIENCE_SECONDS)
    stopping = Thread(target=worker.stop)
    stopping.start()
    assert worker._is_stopping.wait(PATIENCE_SECONDS)
    may_claim.set()
    stopping.join(PATIENCE_SECONDS)
    assert not worker.is_running_jobs
    assert (job(database, name).state, job(database, name).attempts) == ("waiting", 0)


@ONLY_FILE
def test_job_that_cannot_be_checked_holds_up_no_other(
    database: StateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def obstacle(_place: StepPlace, job: JobCandidate) -> str | None:
        raise_for_broken = job.request["steps"]  # KeyError
        assert raise_for_broken
        return None

    monkeypatch.setattr(StepPlace, "obstacle", obstacle)
    broken = add(database, NewJob("index", "knees", {"sources": []}))
    name = add(database, step_job("short", 2))
    worker = JobWorker(database, StepPlace(tmp_path), 1)
    worker.start()
    until(lambda: job(database, name).state == "done")
    until(lambda: "KeyError" in (job(database, broken).waits_for or ""))
    worker.stop()


def test_worker_of_this_process_runs_what_it_can_and_ends_its_threads(
    database: StateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_worker, "LOOK_SECONDS", 0.05)
    worker = JobWorker(database, StepPlace(tmp_path), 1)
    name = add(database, step_job("short", 2))
    other = add(database, NewJob("index", "knees", {"sources": []}))
    worker.start()
    until(lambda: job(database, name).state in ENDED)
    row = job(database, name)
    assert (row.state, row.done, row.worker) == ("done", 2, worker.name)
    until(lambda: job(database, other).waits_for == "a worker that indexes")
    request_cancel(database, other)
    until(lambda: worker._looking is None)
    again = add(database, step_job("again", 2))
    worker.start()
    until(lambda: job(database, again).state in ENDED)
    worker.stop()
    worker.start()
    assert worker._looking is None or not worker._looking.is_alive()
    JobWorker(database, StepPlace(tmp_path), 0).start(stay=True)
    assert worker.name not in str(database)
