"""The extension pgvector of PostgreSQL: its types, and whether a database has it."""

from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.types import UserDefinedType

from cbir.errors import InvalidInput

OLDEST = (0, 8)  # version that goes on searching where a filter leaves too few


class PgVector(UserDefinedType[Any]):
    """SQL type of pgvector. name: "vector" or "halfvec"."""

    cache_ok = True

    def __init__(self, name: str, dimensions: int) -> None:
        self.name, self.dimensions = name, dimensions

    def get_col_spec(self, **_: Any) -> str:
        return f"{self.name}({self.dimensions})"


def require_pgvector(connection: Connection) -> None:
    """Raise InvalidInput if the database lacks the extension, or has an older version than OLDEST."""
    version = connection.scalar(text("SELECT extversion FROM pg_extension WHERE extname = 'vector'"))
    if version is None:
        raise InvalidInput(
            "the database lacks the extension pgvector; an administrator installs it and runs CREATE EXTENSION vector"
        )
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        raise InvalidInput(
            f"the database has pgvector {version}; update it to {OLDEST[0]}.{OLDEST[1]} or later"
        )
