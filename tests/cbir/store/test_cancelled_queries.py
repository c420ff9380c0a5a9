"""Statements of the database end with the search that waits for them."""

import time
from pathlib import Path

import pytest
from sqlalchemy import text

from cbir.errors import QueryCancelled
from cbir.store import Collection, DatabaseError
from cbir.store.base import schema
from cbir.store.postgresql.postgresql_database import Database
from cbir.system.threads import time_limit

ENDLESS = text(
    "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) SELECT count(*) FROM numbers"
)
ROWS = text(
    "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) SELECT n FROM numbers"
)


@pytest.fixture
def engine(collection: Collection) -> Database:
    return collection._engine


def test_a_statement_is_interrupted(engine: Database) -> None:
    started = time.monotonic()
    with pytest.raises(QueryCancelled), time_limit(0.1), engine.connect() as connection:
        connection.execute(ENDLESS)
    assert time.monotonic() - started < 30
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT 1")) == 1


def test_a_statement_is_interrupted_while_its_rows_are_read(tmp_path: Path) -> None:
    (tmp_path / schema.DATABASE).touch()
    engine = schema.connect(tmp_path)
    with pytest.raises(QueryCancelled), time_limit(0.1), engine.connect() as connection:
        for _ in connection.scalars(ROWS):
            pass
    engine.dispose()


def test_a_client_that_leaves_interrupts_a_statement(engine: Database) -> None:
    left_at = time.monotonic() + 0.1

    def leave() -> None:
        if time.monotonic() > left_at:
            raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError), time_limit(60, leave), engine.connect() as connection:
        connection.execute(ENDLESS)


def test_errors_of_statements_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / schema.DATABASE).touch()
    engine = schema.connect(tmp_path)
    with pytest.raises(DatabaseError, match="no such table"), time_limit(60), engine.connect() as connection:
        connection.execute(text("SELECT * FROM missing"))
    engine.dispose()
