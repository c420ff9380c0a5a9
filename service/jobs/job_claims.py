"""Claims of workers to jobs: leases that are renewed while a job runs, by the database's clock.

Each statement of a worker names its claim, so that one whose lease has ended changes nothing any more.
"""

import secrets
from dataclasses import asdict
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, select, true, update
from sqlalchemy.exc import IntegrityError

from indexer.index_progress import JobProgress
from service.jobs.stored_jobs import job_files, jobs, keep_files
from service.state.database import StateDatabase
from service.state.schema import DatabaseTime, database_time, written_time

MAX_ATTEMPTS = 3
TOO_MANY_ATTEMPTS = (
    f"the worker of the job ended {MAX_ATTEMPTS} times without a result: it was killed or its machine "
    "went away; see its log, and whether memory is short"
)


class JobCandidate(NamedTuple):
    """A waiting job. is_due: it may be claimed now."""

    number: int
    job: str
    kind: str
    collection: str
    place: str | None
    lane: str | None
    request: dict[str, Any]
    is_due: bool


class JobClaim(NamedTuple):
    """A job that a worker has claimed. token: differs from that of any other claim."""

    job: str
    token: str
    candidate: JobCandidate


class JobResult(NamedTuple):
    """End of a job. refused_files: None if there are no new ones. The public summary and error name no files."""

    state: str
    progress: JobProgress
    refused_files: list[dict[str, str]] | None
    summary: dict[str, Any] | None
    public_summary: dict[str, Any] | None
    error: str | None
    public_error: str | None


def claimable_jobs(database: StateDatabase) -> tuple[list[JobCandidate], set[str]]:
    """Return the waiting jobs, oldest first, and the lanes in which a job runs."""
    _take_from_lost_workers(database)
    with database.reading() as connection:
        now = database_time(connection)
        rows = connection.execute(
            select(jobs, job_files.c.request)
            .join(job_files, job_files.c.job == jobs.c.job)
            .where(jobs.c.state == "waiting")
            .order_by(jobs.c.number)
        ).all()
        running = select(jobs.c.lane).where(jobs.c.state == "running", jobs.c.lane.is_not(None))
        lanes = set(connection.execute(running).scalars())
    names = JobCandidate._fields[:-1]
    stored = ([*(getattr(row, name) for name in names), row.claimable_from <= now] for row in rows)
    return list(map(JobCandidate._make, stored)), lanes


def claim_job(
    database: StateDatabase, candidate: JobCandidate, worker: str, lease_ms: int
) -> JobClaim | None:
    """Claim a waiting job, unless another worker has it, or one of its lane, meanwhile: None.

    Parameters
    ----------
    database : StateDatabase
    candidate : JobCandidate
    worker : str
        Name of the worker, for people.
    lease_ms : int
        Milliseconds after which others may take the job if the claim is not renewed.
    """
    token = secrets.token_hex(8)
    same = jobs.c.number == candidate.number
    is_free = same, jobs.c.state == "waiting", jobs.c.claimable_from <= DatabaseTime()
    values: dict[str, Any] = {
        "state": "running",
        "claim": token,
        "worker": worker,
        "attempts": jobs.c.attempts + 1,
    }
    try:
        with database.writing(in_turn=False) as connection:
            free = select(jobs.c.number).where(*is_free).with_for_update(skip_locked=True)
            if connection.execute(free).first() is None:
                return None
            connection.execute(
                update(jobs).where(same).values(values | {"claimable_from": DatabaseTime() + lease_ms})
            )
    except IntegrityError:  # another job of the lane
        return None
    return JobClaim(candidate.job, token, candidate)


def renew_claim(
    database: StateDatabase,
    claim: JobClaim,
    progress: JobProgress,
    refused_files: list[dict[str, str]] | None,
    lease_ms: int,
) -> bool | None:
    """Renew the lease of a job and store its progress; return whether to cancel it, None if the lease has ended.

    Parameters
    ----------
    database : StateDatabase
    claim : JobClaim
    progress : JobProgress
    refused_files : list of dict or None
        Files that were refused; None if there are no new ones.
    lease_ms : int
        Milliseconds from now to the end of the lease.
    """
    with database.writing(in_turn=False) as connection:
        values = {**asdict(progress), "claimable_from": DatabaseTime() + lease_ms}
        mine = _is_mine(claim), jobs.c.claimable_from > DatabaseTime()
        if not connection.execute(update(jobs).where(*mine).values(values)).rowcount:
            return None
        _save_refused(connection, claim, refused_files)
        query = select(jobs.c.cancel_requested).where(jobs.c.job == claim.job)
        return bool(connection.execute(query).scalar_one())


def finish_job(database: StateDatabase, claim: JobClaim, result: JobResult) -> bool:
    """Store the `result` of the job of `claim` in `database`; False if another worker has or had it meanwhile."""
    with database.writing(in_turn=False) as connection:
        values = {
            **asdict(result.progress),
            "state": result.state,
            "ended": written_time(database_time(connection)),
            "summary": result.public_summary,
            "error": result.public_error,
            "claim": None,
        }
        if not connection.execute(update(jobs).where(_is_mine(claim)).values(values)).rowcount:
            return False
        _save_refused(connection, claim, result.refused_files)
        full = {"summary": result.summary, "error": result.error}
        connection.execute(update(job_files).where(job_files.c.job == claim.job).values(full))
        keep_files(connection, claim.job)
        return True


def hand_back(database: StateDatabase, claim: JobClaim, pause_ms: int = 0) -> None:
    """Let another worker have the job of `claim` in `database`, after `pause_ms`; the attempt does not count.

    A cancelled job ends.
    """
    values: dict[str, Any] = {
        "state": "waiting",
        "claim": None,
        "worker": None,
        "attempts": jobs.c.attempts - 1,
        "claimable_from": DatabaseTime() + pause_ms,
    }
    with database.writing(in_turn=False) as connection:
        mine = update(jobs).where(_is_mine(claim))
        if connection.execute(mine.where(~jobs.c.cancel_requested).values(values)).rowcount:
            return
        end = {"state": "cancelled", "claim": None, "ended": written_time(database_time(connection))}
        if connection.execute(mine.values(end)).rowcount:
            keep_files(connection, claim.job)


def _take_from_lost_workers(database: StateDatabase) -> None:
    """Let jobs whose lease has ended wait again; end those that were cancelled or have failed too often."""
    expired = jobs.c.state == "running", jobs.c.claimable_from <= DatabaseTime()
    with database.reading() as connection:
        if connection.execute(select(jobs.c.job).where(*expired).limit(1)).first() is None:
            return
    ends: list[tuple[str, str | None, ColumnElement[bool]]] = [
        ("cancelled", None, jobs.c.cancel_requested),
        ("failed", TOO_MANY_ATTEMPTS, jobs.c.attempts >= MAX_ATTEMPTS),
        ("waiting", None, true()),
    ]
    with database.writing(in_turn=False) as connection:
        locked = select(jobs.c.job).where(*expired).with_for_update(skip_locked=True)
        names = list(connection.execute(locked).scalars())
        ended = written_time(database_time(connection))
        for state, error, condition in ends:
            lost = jobs.c.job.in_(names) & (jobs.c.state == "running") & condition
            values: dict[str, Any] = {"state": state, "claim": None, "error": error}
            values |= {"worker": None} if state == "waiting" else {"ended": ended}
            connection.execute(update(jobs).where(lost).values(values))
        has_ended = jobs.c.job.in_(names) & (jobs.c.state != "waiting")
        for name in connection.execute(select(jobs.c.job).where(has_ended)).scalars().all():
            keep_files(connection, name)


def _is_mine(claim: JobClaim) -> ColumnElement[bool]:
    return (jobs.c.job == claim.job) & (jobs.c.claim == claim.token) & (jobs.c.state == "running")


def _save_refused(
    connection: Connection, claim: JobClaim, refused_files: list[dict[str, str]] | None
) -> None:
    if refused_files is not None:
        of_job = update(job_files).where(job_files.c.job == claim.job)
        connection.execute(of_job.values(refused_files=refused_files))
