"""Tables of jobs: the queue, names of files, and the workers that look for jobs, with what they lack."""

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Index,
    Table,
    Text,
    delete,
    false,
    insert,
    select,
    text,
)

from service.state.database import StateDatabase
from service.state.schema import DatabaseTime, WholeNumber, tables

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
