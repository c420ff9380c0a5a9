"""What searches ask of the database: little, because each question of a server takes half a millisecond."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, event

from cbir.search import Request, Searcher, Stopwatch
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.database import connect_once, is_sqlite
from cbir.store.postgresql_database import PostgresqlDatabase
from tests.cbir.store.conftest import entry


@pytest.fixture
def searcher(collection: Collection) -> Searcher:
    with collection.writer() as writer:
        writer.add([entry(number) for number in range(40)])
        writer.finish()
    made = Searcher(collection, Settings())
    made.by_examples([], Request(), Stopwatch(), vectors=np.ones(6))  # opens the snapshot
    return made


@contextmanager
def asked() -> Iterator[list[str]]:
    """The statements sent meanwhile, with their parameters."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append(f"{statement} {parameters}")

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_a_search_does_not_read_the_statistics_again(searcher: Searcher) -> None:
    image_id = searcher.collection.page(limit=1)[0][1].image_id
    with asked() as statements:
        searcher.by_examples([], Request(), Stopwatch(), vectors=np.ones(6))
        searcher.by_id(image_id, Request(), Stopwatch())
    assert statements
    assert not [statement for statement in statements if "statistics" in statement]


def test_a_search_takes_few_statements_and_in_postgresql_no_transaction(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = searcher.collection._engine
    image_id = searcher.collection.page(limit=1)[0][1].image_id
    monkeypatch.delattr(PostgresqlDatabase, "connect")
    with asked() as statements:
        searcher.by_id(image_id, Request(), Stopwatch())
    assert len(statements) <= (12 if is_sqlite(database) else 5)
    with connect_once(database) as connection:
        raw = connection.connection.dbapi_connection
        assert is_sqlite(database) or (
            raw and raw.autocommit
        )  # BEGIN and ROLLBACK would be two more questions
