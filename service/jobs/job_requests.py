"""Requests to the queue of jobs: a new job, its end, another try."""

import secrets
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, func, insert, select, update

from service.jobs.job_history import drop_oldest
from service.jobs.job_tables import ENDED, job_files, jobs
from service.state.database import StateDatabase
from service.state.database_clock import DatabaseTime, database_time, written_time

KEEP_FILES_MS = 7 * 24 * 3600 * 1000  # names of files and folders after the end of their job


class NewJob(NamedTuple):
    """A job to store.

    request: what a worker needs to run it, as JSON. place, lane: see the table.
    """

    kind: str
    collection: str
    request: dict[str, Any]
    place: str | None = None
    lane: str | None = None


def add_job(database: StateDatabase, new: NewJob, most_waiting: int, *, once: bool = False) -> str | None:
    """Store a job for any worker, and return its name.

    Parameters
    ----------
    database : StateDatabase
    new : NewJob
    most_waiting : int
        Number of waiting jobs from which no more are accepted: None is returned.
    once : bool
        Return the waiting or running job of the same lane, if there is one, in place of a second.
    """
    with database.writing() as connection:
        if once:
            same = jobs.c.lane == new.lane, jobs.c.kind == new.kind, jobs.c.state.not_in(ENDED)
            existing = connection.execute(select(jobs.c.job).where(*same).limit(1)).scalar()
            if existing is not None:
                return str(existing)
        waiting = select(func.count()).select_from(jobs).where(jobs.c.state == "waiting")
        if connection.execute(waiting).scalar_one() >= most_waiting:
            return None
        name = secrets.token_hex(8)
        values = new._asdict()
        request = values.pop("request")
        created = written_time(database_time(connection))
        values |= {"job": name, "state": "waiting", "created": created, "done": 0, "refused": 0}
        connection.execute(insert(jobs).values(**values, claimable_from=0))
        connection.execute(insert(job_files).values(job=name, request=request, refused_files=[]))
        drop_oldest(connection)
        return name


def request_cancel(database: StateDatabase, job: str) -> str | None:
    """Cancel a job: at once unless it runs, else by its worker.

    Returns the state in which it has ended before, None if it had not.
    """
    with database.writing() as connection:
        row = _locked(connection, job)
        if row.state in ENDED:
            return str(row.state)
        now = database_time(connection)
        same = jobs.c.job == job
        if row.state == "running" and row.claimable_from > now:
            connection.execute(update(jobs).where(same).values(cancel_requested=True))
        else:
            end = {"state": "cancelled", "claim": None, "ended": written_time(now)}
            connection.execute(update(jobs).where(same).values(end))
            keep_files(connection, job)
        return None


def request_retry(database: StateDatabase, job: str) -> str | None:
    """Let a job that has failed or was cancelled wait again, with as many attempts as a new one.

    Returns the state that forbids it, "forgotten" if its request is not stored any more; else None.
    """
    with database.writing() as connection:
        row = _locked(connection, job)
        if row.state not in ("failed", "cancelled"):
            return str(row.state)
        values: dict[str, Any] = {"error": None, "summary": None, "keep_until": None, "refused_files": []}
        renewed = connection.execute(update(job_files).where(job_files.c.job == job).values(values))
        if not renewed.rowcount:
            return "forgotten"
        fresh: dict[str, Any] = {
            "done": 0,
            "total": None,
            "refused": 0,
            "summary": None,
            "error": None,
            "attempts": 0,
        }
        fresh |= {"state": "waiting", "ended": None, "claim": None, "worker": None}
        fresh |= {"claimable_from": 0, "cancel_requested": False}
        same = jobs.c.job == job
        connection.execute(update(jobs).where(same).values(fresh))
        return None


def keep_files(connection: Connection, job: str) -> None:
    """Let the names of files of a job that has ended be deleted after their time."""
    keep_until = DatabaseTime() + KEEP_FILES_MS
    connection.execute(update(job_files).where(job_files.c.job == job).values(keep_until=keep_until))


def _locked(connection: Connection, job: str) -> Row[Any]:
    """Return a job that exists; no worker changes it until the end of the transaction."""
    return connection.execute(select(jobs).where(jobs.c.job == job).with_for_update()).one()
