"""Claims to jobs: each once, one of a lane at a time, with leases by the clock of the database."""

import datetime
import threading
import time
from collections.abc import Callable

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from cbir import settings
from indexer.index_progress import JobProgress
from service.jobs import stored_jobs
from service.jobs.job_claims import (
    MAX_ATTEMPTS,
    JobClaim,
    JobResult,
    claim_job,
    claimable_jobs,
    finish_job,
    hand_back,
    renew_claim,
)
from service.jobs.stored_jobs import (
    EXPIRY_MS,
    JobRow,
    NewJob,
    add_job,
    forget_files,
    job_files,
    jobs,
    load_jobs,
    remove_worker,
    request_cancel,
    request_retry,
    save_worker,
)
from service.state.database import StateDatabase, open_state
from service.state.schema import database_time
from tests.postgresql_server import PostgresqlServer

pytestmark = pytest.mark.usefixtures("each_database")

LONG_MS = 60_000
SHORT_MS = 30
NOTHING = JobProgress(0, None, 0)
DONE = JobResult("done", NOTHING, None, {"indexed": 1}, {"indexed": 1}, None, None)


@pytest.fixture
def database() -> StateDatabase:
    return open_state(settings.load())


def add(database: StateDatabase, lane: str | None = None, collection: str = "knees") -> str:
    request = {"folder_name": collection, "sources": ["/archive"]}
    name = add_job(database, NewJob("index", collection, request, lane=lane), 1000)
    assert name
    return name


def claim(database: StateDatabase, lease_ms: int = LONG_MS) -> JobClaim:
    candidates, lanes = claimable_jobs(database)
    free = next(each for each in candidates if each.is_due and each.lane not in lanes)
    claimed = claim_job(database, free, "worker", lease_ms)
    assert claimed
    return claimed


def job(database: StateDatabase, name: str) -> JobRow:
    (row,) = load_jobs(database, name)
    return row


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_of_two_claims_to_a_job_one_succeeds(database: StateDatabase) -> None:
    """Both have read that the job waits before either claims it."""
    add(database)
    ((candidate,), _) = claimable_jobs(database)
    barrier, claims = threading.Barrier(8), []

    def take() -> None:
        own = open_state(settings.load())
        own.check()
        barrier.wait()
        claims.append(claim_job(own, candidate, "worker", LONG_MS))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([each for each in claims if each]) == 1
    assert job(database, candidate.job).attempts == 1


@pytest.mark.parametrize("each_database", ["postgresql"], indirect=True)
def test_a_claim_that_hangs_delays_no_other(
    postgresql: PostgresqlServer, database: StateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.state.postgresql.TIMEOUTS", "-c lock_timeout=200ms")
    oldest, second = add(database), add(database)
    other = open_state(settings.load())
    candidates, _ = claimable_jobs(other)
    assert [each.job for each in candidates] == [oldest, second]
    with database.writing(in_turn=False) as connection:
        connection.execute(select(jobs).where(jobs.c.job == oldest).with_for_update()).one()
        assert claim_job(other, candidates[0], "worker", LONG_MS) is None
        assert claim_job(other, candidates[1], "worker", LONG_MS)


def test_two_jobs_of_a_lane_do_not_run_at_once(database: StateDatabase) -> None:
    first, second, elsewhere = add(database, "a"), add(database, "a"), add(database, "b")
    candidates, _ = claimable_jobs(database)
    running = claim_job(database, candidates[0], "worker", LONG_MS)
    assert running
    assert running.job == first
    assert claim_job(database, candidates[1], "worker", LONG_MS) is None
    assert first in (job(database, second).waits_for or "")
    assert claim(database).job == elsewhere  # is not behind the second
    with pytest.raises(IntegrityError), database.writing() as connection:  # whatever a worker may do
        connection.execute(update(jobs).where(jobs.c.job == second).values(state="running"))
    assert finish_job(database, running, DONE)
    assert claim(database).job == second


def test_lease_that_is_not_renewed_ends(database: StateDatabase) -> None:
    name = add(database, "a")
    lost = claim(database, SHORT_MS)
    assert lost.job == name
    until(lambda: job(database, name).state == "waiting")
    assert renew_claim(database, lost, NOTHING, None, LONG_MS) is None  # too late, though no one else has it
    again = claim(database)
    assert (again.job, job(database, name).attempts) == (name, 2)
    assert renew_claim(database, lost, JobProgress(9, 9, 9), [{"path": "x"}], LONG_MS) is None
    assert not finish_job(database, lost, DONE)
    hand_back(database, lost)
    assert (job(database, name).state, job(database, name).done) == ("running", 0)
    assert job(database, name).refused_files == []
    assert finish_job(database, again, DONE)
    assert (job(database, name).state, job(database, name).summary) == ("done", {"indexed": 1})


def test_renewed_lease_goes_on(database: StateDatabase) -> None:
    name = add(database)
    running = claim(database, 2000)
    with database.reading() as connection:
        claimed = database_time(connection)
    refused = [{"path": "a.txt", "reason": "no image"}]
    assert renew_claim(database, running, JobProgress(3, 10, 1), refused, LONG_MS) is False
    assert renew_claim(database, running, JobProgress(4, 10, 1), None, LONG_MS) is False
    row = job(database, name)
    assert (row.done, row.total, row.refused, row.refused_files) == (4, 10, 1, refused)
    with database.reading() as connection:
        assert connection.execute(select(jobs.c.claimable_from)).scalar_one() >= claimed + LONG_MS


def test_job_whose_workers_are_lost_fails(database: StateDatabase) -> None:
    name = add(database)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        assert job(database, name).state == "waiting"
        claim(database, SHORT_MS)
        assert job(database, name).attempts == attempt
        until(lambda: job(database, name).state == "waiting")
    assert claimable_jobs(database) == ([], set())
    row = job(database, name)
    assert row.state == "failed"
    assert row.ended
    assert "3 times" in (row.error or "")
    assert request_retry(database, name) is None
    assert (job(database, name).attempts, job(database, name).error) == (0, None)
    assert claim(database).job == name


def test_job_that_is_handed_back_has_used_no_attempt(database: StateDatabase) -> None:
    name = add(database)
    for _ in range(MAX_ATTEMPTS + 1):
        hand_back(database, claim(database))
    assert (job(database, name).state, job(database, name).attempts) == ("waiting", 0)
    hand_back(database, claim(database), LONG_MS)
    ((candidate,), _) = claimable_jobs(database)
    assert not candidate.is_due
    assert claim_job(database, candidate, "worker", LONG_MS) is None


def test_cancel(database: StateDatabase) -> None:
    waiting, running, lost = add(database), add(database), add(database)
    assert request_cancel(database, waiting) is None
    assert job(database, waiting).state == "cancelled"
    assert request_cancel(database, waiting) == "cancelled"
    mine = claim(database)
    assert mine.job == running
    assert request_cancel(database, running) is None
    assert job(database, running).state == "running"  # its worker is told by the next renewal
    assert renew_claim(database, mine, NOTHING, None, LONG_MS) is True
    claim(database, SHORT_MS)
    until(lambda: job(database, lost).state == "waiting")
    assert request_cancel(database, lost) is None
    assert job(database, lost).state == "cancelled"
    assert [each.job for each in claimable_jobs(database)[0]] == []


def test_job_that_is_cancelled_before_a_worker_claims_it_does_not_run(database: StateDatabase) -> None:
    name = add(database)
    ((candidate,), _) = claimable_jobs(database)
    assert request_cancel(database, name) is None
    assert claim_job(database, candidate, "worker", LONG_MS) is None
    assert (job(database, name).state, job(database, name).attempts) == ("cancelled", 0)


def test_cancelled_job_of_a_lost_worker_is_cancelled(database: StateDatabase) -> None:
    name = add(database)
    claim(database, 300)
    assert request_cancel(database, name) is None
    until(lambda: not claimable_jobs(database)[0] and job(database, name).state == "cancelled")


def test_cancelled_job_that_is_handed_back_ends(database: StateDatabase) -> None:
    """Its worker was told to end before it noticed."""
    name = add(database, "a")
    mine = claim(database)
    assert request_cancel(database, name) is None
    hand_back(database, mine)
    row = job(database, name)
    assert (row.state, row.waits_for) == ("cancelled", None)
    assert row.ended
    with database.reading() as connection:
        assert connection.execute(select(job_files.c.keep_until)).scalar_one()
    assert request_retry(database, name) is None
    again = claim(database)
    hand_back(database, mine)
    assert job(database, name).state == "running"
    hand_back(database, again)
    assert job(database, name).state == "waiting"


@pytest.mark.parametrize("hours", [-30, 30])
def test_clocks_of_machines_do_not_matter(
    database: StateDatabase, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    name = add(database)
    mine = claim(database)
    skewed = time.time() + hours * 3600

    class Skewed(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Skewed":
            return cls.fromtimestamp(skewed, tz)

    monkeypatch.setattr(time, "time", lambda: skewed)
    monkeypatch.setattr(datetime, "datetime", Skewed)
    assert claimable_jobs(database)[0] == []
    assert job(database, name).state == "running"
    assert renew_claim(database, mine, NOTHING, None, LONG_MS) is False
    other = add(database)
    created = [datetime.datetime.fromisoformat(job(database, each).created) for each in (name, other)]
    assert abs((created[1] - created[0]).total_seconds()) < 60
    claim(database, SHORT_MS)
    until(lambda: job(database, other).state == "waiting")


def test_job_says_what_it_waits_for(database: StateDatabase) -> None:
    name = add(database)
    assert "cbir admin worker" in (job(database, name).waits_for or "")
    save_worker(database, "one", {name: "a worker with the collection knees"})
    assert job(database, name).waits_for == "a worker with the collection knees"
    save_worker(database, "two", {name: "a worker that has the folder"})
    assert job(database, name).waits_for == "a worker that has the folder; a worker with the collection knees"
    save_worker(database, "two", {})
    assert job(database, name).waits_for is None  # two takes it when it is free
    remove_worker(database, "two")
    assert job(database, name).waits_for == "a worker with the collection knees"
    with database.writing() as connection:
        connection.exec_driver_sql(f"UPDATE job_workers SET expires = expires - {EXPIRY_MS}")
    assert "cbir admin worker" in (job(database, name).waits_for or "")
    save_worker(database, "one", {})
    hand_back(database, claim(database), LONG_MS)
    assert "pause" in (job(database, name).waits_for or "")


def test_history_is_bounded_and_loses_no_job_that_has_not_ended(
    database: StateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_jobs, "MAX_JOBS", 3)
    waiting = add(database)
    ended = [add(database) for _ in range(5)]
    for name in ended:
        request_cancel(database, name)
    last = add(database)
    assert [row.job for row in load_jobs(database)] == [last, *ended[:2:-1], waiting]
    with database.reading() as connection:
        assert set(connection.execute(select(job_files.c.job)).scalars()) == {last, *ended[3:], waiting}


def test_names_of_files_are_forgotten(database: StateDatabase) -> None:
    name, waiting = add(database), add(database)
    named = DONE._replace(
        state="failed", progress=JobProgress(1, 1, 1), refused_files=[{"path": "Doe.png", "reason": "none"}],
        error="Doe", public_error="the job failed",
    )  # fmt: skip
    assert finish_job(database, claim(database), named)
    assert (job(database, name).error, len(job(database, name).refused_files)) == ("Doe", 1)
    with database.writing() as connection:
        connection.execute(update(job_files).values(keep_until=job_files.c.keep_until - 7 * 24 * 3600 * 1000))
    forget_files(database)
    assert (job(database, name).error, job(database, name).refused_files) == ("the job failed", [])
    assert request_retry(database, name) == "forgotten"
    assert claim(database).job == waiting


def test_only_so_many_jobs_wait_and_a_map_only_once(database: StateDatabase) -> None:
    new = NewJob("map", "knees", {}, "here", "map here")
    name = add_job(database, new, 1, once=True)
    assert name
    assert add_job(database, new, 1, once=True) == name
    assert add_job(database, new, 1) is None
    running = claim(database)
    assert add_job(database, new, 1, once=True) == name
    finish_job(database, running, DONE)
    assert add_job(database, new, 1, once=True) not in (None, name)
