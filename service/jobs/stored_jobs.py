"""Jobs in the state database: their tables, new ones, their end, another try, and all as clients see them."""

import secrets
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Index,
    Row,
    Table,
    Text,
    delete,
    false,
    func,
    insert,
    select,
    text,
    true,
    update,
)

from service.state.database import StateDatabase
from service.state.schema import DatabaseTime, WholeNumber, database_time, tables, written_time

ENDED = ("done", "cancelled", "failed")
_IS_RUNNING = text("state = 'running'")
jobs = Table(
    "jobs",
    tables,
    Column("number", WholeNumber, primary_key=True),  # ascending with time: the oldest job is claimed first
    Column("job", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("collection", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created", Text, nullable=False),  # UTC, ISO 8601
    Column("ended", Text),
    Column("done", WholeNumber, nullable=False),
    Column("total", WholeNumber),
    Column("refused", WholeNumber, nullable=False),
    Column("summary", JSON),
    Column("error", Text),
    # Milliseconds of the database's clock: the end of the lease of a running job; earliest start of a waiting one.
    Column("claimable_from", WholeNumber, nullable=False),
    Column("place", Text),  # folder that a worker must have, see folder_place; null: any with the collection
    Column("lane", Text),  # of which one job runs at a time; null: any number
    Column("attempts", WholeNumber, nullable=False, server_default=text("0")),
    Column("claim", Text),  # of the worker that runs it, another for each attempt
    Column("worker", Text),
    Column("cancel_requested", Boolean, nullable=False, server_default=false()),
    # The database itself refuses a second running job of a lane.
    Index("jobs_running_lane", "lane", unique=True, sqlite_where=_IS_RUNNING, postgresql_where=_IS_RUNNING),
)

# What names files and folders, which may be of patients; kept for some days after the end.
job_files = Table(
    "job_files",
    tables,
    Column("job", Text, primary_key=True),
    Column("request", JSON, nullable=False),
    Column("refused_files", JSON, nullable=False),
    Column("summary", JSON),
    Column("error", Text),
    Column("keep_until", WholeNumber),  # milliseconds; null while the job has not ended
)
job_workers = Table(
    "job_workers",
    tables,
    Column("worker", Text, primary_key=True),
    Column("expires", WholeNumber, nullable=False),  # milliseconds
    Column("obstacles", JSON, nullable=False),  # by job: what the worker lacks for it
)
EXPIRY_MS = 15_000  # after which a worker that has not been heard of is gone
MAX_JOBS = 500  # jobs
NO_WORKER = (
    "a worker: none is running; start `cbir admin worker`, or a service with the setting job_workers above 0"
)
RETRY = (
    "a pause before the next attempt: another program is writing to the collection, "
    "or its database did not answer"
)
KEEP_FILES_MS = 7 * 24 * 3600 * 1000  # names of files and folders after the end of their job


def save_worker(database: StateDatabase, worker: str, obstacles: dict[str, str]) -> None:
    """Store in `database` that a worker is looking for jobs. obstacles: what it lacks, by job that it cannot run."""
    with database.writing() as connection:
        expired = (job_workers.c.expires <= DatabaseTime()) | (job_workers.c.worker == worker)
        connection.execute(delete(job_workers).where(expired))
        expires = DatabaseTime() + EXPIRY_MS
        connection.execute(insert(job_workers).values(worker=worker, expires=expires, obstacles=obstacles))


def remove_worker(database: StateDatabase, worker: str) -> None:
    """Store that a worker has ended."""
    with database.writing() as connection:
        connection.execute(delete(job_workers).where(job_workers.c.worker == worker))


def live_obstacles(connection: Connection, now: int) -> dict[str, dict[str, str]]:
    """Return what each live worker lacks, by worker and job."""
    rows = connection.execute(select(job_workers).where(job_workers.c.expires > now)).all()
    return {row.worker: row.obstacles for row in rows}


class JobRow(NamedTuple):
    """A job. waits_for: what keeps it from being started, None for the next free worker."""

    job: str
    kind: str
    collection: str
    state: str
    created: str
    ended: str | None
    done: int
    total: int | None
    refused: int
    refused_files: list[dict[str, str]]
    summary: dict[str, Any] | None
    error: str | None
    attempts: int
    worker: str | None
    waits_for: str | None


def load_jobs(database: StateDatabase, job: str | None = None) -> list[JobRow]:
    """Return all jobs, newest first; or the one with the name `job`, none if there is no such job."""
    with database.reading() as connection:
        now = database_time(connection)
        rows = connection.execute(
            select(jobs, job_files.c.refused_files, job_files.c.summary.label("full_summary"))
            .add_columns(job_files.c.error.label("full_error"))
            .outerjoin(job_files, job_files.c.job == jobs.c.job)
            .where(jobs.c.job == job if job else true())
            .order_by(jobs.c.number.desc())
        ).all()
        active = [row for row in rows if row.state not in ENDED]
        obstacles = live_obstacles(connection, now) if active else {}
        lanes = _busy_lanes(connection, now) if active else {}
    return [_job_row(row, now, lanes, obstacles) for row in rows]


def count_jobs(database: StateDatabase) -> dict[str, int]:
    """Return the number of jobs by state."""
    with database.reading() as connection:
        counts = connection.execute(select(jobs.c.state, func.count()).group_by(jobs.c.state))
        return dict.fromkeys(("waiting", "running", *ENDED), 0) | {row[0]: row[1] for row in counts}


def drop_oldest(connection: Connection) -> None:
    """Delete ended jobs beyond the newest MAX_JOBS, and their names of files."""
    newest = select(jobs.c.number).order_by(jobs.c.number.desc())
    oldest = connection.execute(newest.offset(MAX_JOBS).limit(1)).scalar()
    if oldest is not None:
        connection.execute(delete(jobs).where(jobs.c.number <= oldest, jobs.c.state.in_(ENDED)))
        connection.execute(delete(job_files).where(job_files.c.job.not_in(select(jobs.c.job))))


def forget_files(database: StateDatabase) -> None:
    """Delete names of files and folders whose time is over; reads only while there are none."""
    with database.reading() as connection:
        is_over = job_files.c.keep_until <= database_time(connection)
        if connection.execute(select(job_files.c.job).where(is_over).limit(1)).first() is None:
            return
    with database.writing() as connection:
        connection.execute(delete(job_files).where(is_over))
    database.drop_old_rows()


def _busy_lanes(connection: Connection, now: int) -> dict[str, str]:
    """Return the job that runs in each lane."""
    running = jobs.c.state == "running", jobs.c.claimable_from > now, jobs.c.lane.is_not(None)
    lanes = connection.execute(select(jobs.c.lane, jobs.c.job).where(*running))
    return {row.lane: row.job for row in lanes}


def _job_row(row: Any, now: int, lanes: dict[str, str], obstacles: dict[str, dict[str, str]]) -> JobRow:
    values = {name: getattr(row, name) for name in JobRow._fields if name != "waits_for"}
    values["refused_files"] = row.refused_files or []
    values["summary"] = row.full_summary or row.summary
    values["error"] = row.full_error or row.error
    if row.state == "running" and row.claimable_from <= now:  # its worker was lost
        values |= {"state": "waiting", "worker": None}
    waits_for = _missing(row, now, lanes, obstacles) if values["state"] == "waiting" else None
    return JobRow(**values, waits_for=waits_for)


def _missing(row: Any, now: int, lanes: dict[str, str], obstacles: dict[str, dict[str, str]]) -> str | None:
    """Return what a waiting job waits for. obstacles: by live worker, and by job."""
    if row.lane in lanes and lanes[row.lane] != row.job:
        return f"the end of the job {lanes[row.lane]} of the same collection"
    if not obstacles:
        return NO_WORKER
    if all(row.job in missing for missing in obstacles.values()):
        return "; ".join(sorted({missing[row.job] for missing in obstacles.values()}))
    return RETRY if row.state == "waiting" and row.claimable_from > now else None


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
