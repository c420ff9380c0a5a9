"""Jobs as clients see them, from every service that shares the state database."""

from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, select, true

from service.jobs.job_tables import ENDED, job_files, jobs
from service.jobs.job_workers import live_obstacles
from service.state.database import StateDatabase
from service.state.database_clock import database_time

MAX_JOBS = 500  # jobs
NO_WORKER = (
    "a worker: none is running; start `cbir worker`, or a service with the setting job_workers above 0"
)
RETRY = (
    "a pause before the next attempt: another program is writing to the collection, "
    "or its database did not answer"
)


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
