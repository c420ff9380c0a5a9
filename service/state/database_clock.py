"""The clock of the state database: services on several machines compare times of one clock only."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Connection, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import ColumnElement


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
