"""Tables of the state database, and their changes from version to version."""

import time
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    insert,
    inspect,
    select,
    text,
    update,
)

tables = MetaData()  # to which the modules of this package add their tables

# 64 bits everywhere: those of PostgreSQL's INTEGER end with the year 2038, and SQLite numbers rows by INTEGER only.
WholeNumber = BigInteger().with_variant(Integer(), "sqlite")

VERSION_TABLE = "schema_version"

_version = Table(VERSION_TABLE, tables, Column("version", WholeNumber, primary_key=True, autoincrement=False))


class Migration(NamedTuple):
    """Change of a `table` by an SQL `statement`; a database without this table gets it in its newest form."""

    table: str
    statement: str


# In order; the version of a database is the number of those it has had.
MIGRATIONS: tuple[Migration, ...] = (
    # Jobs that any worker can run: those from before have no stored request.
    Migration(
        "jobs",
        "UPDATE jobs SET state = 'failed', error = 'the service ended while the job was waiting or running; "
        "start it again to continue' WHERE state IN ('waiting', 'running')",
    ),
    Migration("jobs", "ALTER TABLE jobs RENAME COLUMN renewed TO claimable_from"),
    Migration("jobs", "ALTER TABLE jobs ADD COLUMN place TEXT"),
    Migration("jobs", "ALTER TABLE jobs ADD COLUMN lane TEXT"),
    Migration("jobs", "ALTER TABLE jobs ADD COLUMN attempts BIGINT NOT NULL DEFAULT 0"),
    Migration("jobs", "ALTER TABLE jobs ADD COLUMN claim TEXT"),
    Migration("jobs", "ALTER TABLE jobs ADD COLUMN worker TEXT"),
    Migration("jobs", "ALTER TABLE jobs ADD COLUMN cancel_requested BOOLEAN NOT NULL DEFAULT FALSE"),
    Migration("jobs", "CREATE UNIQUE INDEX jobs_running_lane ON jobs (lane) WHERE state = 'running'"),
    Migration("tokens", "ALTER TABLE tokens ADD COLUMN made_by TEXT"),
    # Sums of rows, see `row_sums`, which programs before cannot keep.
    Migration(VERSION_TABLE, "SELECT 1"),
)


class NewerSchema(Exception):
    """The database was written by a newer version of cbir."""


def prepare(connection: Connection) -> None:
    """Create missing tables and run the migrations that are due; raises NewerSchema."""
    existing = inspect(connection)
    has_version = existing.has_table(_version.name)
    version = connection.execute(select(_version.c.version)).scalar_one() if has_version else len(MIGRATIONS)
    if version > len(MIGRATIONS):
        raise NewerSchema
    for migration in MIGRATIONS[version:]:
        if existing.has_table(migration.table):
            connection.execute(text(migration.statement))
    tables.create_all(connection)
    if not has_version:
        connection.execute(insert(_version).values(version=version))
    elif version < len(MIGRATIONS):
        connection.execute(update(_version).values(version=len(MIGRATIONS)))


def unix_time() -> int:
    """Return the time in whole seconds since 1970 (UTC), as all tables keep it."""
    return int(time.time())
