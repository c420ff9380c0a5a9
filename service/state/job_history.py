"""Jobs of the service, without names of files, which may be of patients."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import JSON, Column, Table, Text, delete, insert, select, update

from service.state.database import StateDatabase
from service.state.schema import WholeNumber, tables, unix_time

MAX_JOBS = 500  # jobs
LEASE_SECONDS = 30  # after which a job whose service does not renew it counts as interrupted
INTERRUPTED = "the service ended while the job was waiting or running; start it again to continue"

jobs = Table(
    "jobs",
    tables,
    Column("number", WholeNumber, primary_key=True),  # ascending with time
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
    Column("renewed", WholeNumber, nullable=False),
)


class JobRow(NamedTuple):
    """A job, as clients see it."""

    job: str
    kind: str
    collection: str
    state: str
    created: str
    ended: str | None
    done: int
    total: int | None
    refused: int
    summary: dict[str, Any] | None
    error: str | None


def save_jobs(database: StateDatabase, rows: Iterable[JobRow]) -> None:
    """Store the present states of jobs, and renew their leases."""
    with database.writing() as connection:
        for row in rows:
            values = row._asdict() | {"renewed": unix_time()}
            if not connection.execute(update(jobs).where(jobs.c.job == row.job).values(values)).rowcount:
                connection.execute(insert(jobs).values(values))
        oldest = connection.execute(
            select(jobs.c.number).order_by(jobs.c.number.desc()).offset(MAX_JOBS).limit(1)
        ).scalar()
        if oldest is not None:
            connection.execute(delete(jobs).where(jobs.c.number <= oldest))


def load_jobs(database: StateDatabase) -> list[JobRow]:
    """Return all jobs, newest first; those that a service has left unfinished as failed."""
    with database.reading() as connection:
        rows = connection.execute(select(jobs).order_by(jobs.c.number.desc())).all()
    lost = unix_time() - LEASE_SECONDS
    history = []
    for row in rows:
        job = JobRow(*[getattr(row, name) for name in JobRow._fields])
        if job.ended is None and row.renewed < lost:
            job = job._replace(state="failed", error=INTERRUPTED)
        history.append(job)
    return history
