"""Tables of the state database, their changes from version to version, and the database's clock."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, NamedTuple

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
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import ColumnElement

import service.state
from cbir.errors import CbirError
from cbir.system.features import FeatureUnusable, features


class StateUnavailable(CbirError):
    """The state database cannot be opened, read or written."""


tables = MetaData()  # to which the modules of this package add their tables

# 64 bits everywhere: those of PostgreSQL's INTEGER end with the year 2038, and SQLite numbers rows by INTEGER only.
WholeNumber = BigInteger().with_variant(Integer(), "sqlite")

VERSION_TABLE = "schema_version"

_version = Table(VERSION_TABLE, tables, Column("version", WholeNumber, primary_key=True, autoincrement=False))
JOBS = "service.jobs.stored_jobs"


class Migration(NamedTuple):
    """Change of a `table` by an SQL `statement`; a database without this table gets it in its newest form."""

    table: str
    statement: str


FIRST_VERSION = 9  # of a database, as version 1.0 of cbir made it
# In order; the version of a database is FIRST_VERSION and the number of those it has had.
MIGRATIONS: tuple[Migration, ...] = (
    Migration("tokens", "ALTER TABLE tokens ADD COLUMN made_by TEXT"),
    # Sums of rows, see `sqlite_file`, which programs before cannot keep.
    Migration(VERSION_TABLE, "SELECT 1"),
)


class UnknownSchema(Exception):
    """The database was written by a version of cbir whose tables this one cannot upgrade; the text says which."""


def prepare(connection: Connection) -> None:
    """Create missing tables and run the migrations that are due; raises UnknownSchema."""
    existing = inspect(connection)
    has_version = existing.has_table(_version.name)
    newest = FIRST_VERSION + len(MIGRATIONS)
    version = connection.execute(select(_version.c.version)).scalar_one() if has_version else newest
    if version > newest:
        raise UnknownSchema("was written by a newer version of cbir; install that version")
    if version < FIRST_VERSION:
        raise UnknownSchema(
            "was written by a version of cbir before 1.0; let version 1.0 upgrade it, or move it away"
        )
    for migration in MIGRATIONS[version - FIRST_VERSION :]:
        if existing.has_table(migration.table):
            connection.execute(text(migration.statement))
    tables.create_all(connection)
    if not has_version:
        connection.execute(insert(_version).values(version=version))
    elif version < newest:
        connection.execute(update(_version).values(version=newest))


def unix_time() -> int:
    """Return the time in whole seconds since 1970 (UTC), as all tables keep it."""
    return int(time.time())


def all_tables() -> list[Table]:
    """Return the tables of the state, of jobs and of features, those first that others refer to."""
    list(_modules())  # each adds its tables
    return tables.sorted_tables


def check_tables() -> None:
    """Raise FeatureUnusable if a feature has added tables that it does not declare, so that nothing erases them."""
    declared = {
        each.name for module in _modules() for each in vars(module).values() if isinstance(each, Table)
    }
    if undeclared := tables.tables.keys() - declared:
        raise FeatureUnusable(
            f"the table {min(undeclared)} belongs to no feature: one must name its module in `tables`, and an eraser"
        )


def _modules() -> Iterator[ModuleType]:
    for module in iter_modules(service.state.__path__):
        yield import_module(f"{service.state.__name__}.{module.name}")
    yield import_module(JOBS)
    for feature in features():
        for name in feature.tables:
            yield feature.load(name)


class DatabaseTime(ColumnElement[int]):
    """SQL expression: milliseconds since 1970 (UTC) when the statement runs, by the database's clock."""

    type = BigInteger()
    inherit_cache = True


@compiles(DatabaseTime, "postgresql")
def _of_server(_element: DatabaseTime, _compiler: Any, **_options: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(DatabaseTime, "sqlite")
def _of_machine(_element: DatabaseTime, _compiler: Any, **_options: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


def database_time(connection: Connection) -> int:
    """Return the milliseconds since 1970 (UTC) by the database's clock."""
    return int(connection.execute(select(DatabaseTime())).scalar_one())


def written_time(milliseconds: int) -> str:
    """Return a time in ISO 8601, to the second."""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).isoformat(timespec="seconds")
