"""Workers that look for jobs, and what they lack for those that wait."""

from sqlalchemy import Connection, delete, insert, select

from service.jobs.job_tables import job_workers
from service.state.database import StateDatabase
from service.state.database_clock import DatabaseTime

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
