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
from cbir.store.postgresql.postgresql_database import PostgresqlDatabase, connect_once, is_sqlite
from cbir.store.records import record_rows
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


def test_labels_beyond_a_bound_are_not_read(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_rows, "BLOCK", 5)
    collection = searcher.collection
    with collection.writer() as writer:
        writer.set_labels_of([record.image_id for _, record in collection.iterate()], {"note": "ö" * 500})
    whole = searcher.by_examples([], Request(k=40), Stopwatch(), vectors=np.ones(6)).results
    with asked() as statements:
        request = Request(k=40, label_bytes=9000)
        bounded = searcher.by_examples([], request, Stopwatch(), vectors=np.ones(6)).results
    assert [hit.image_id for hit in bounded] == [hit.image_id for hit in whole]
    assert [hit.labels_left_out for hit in bounded] == [False] * 10 + [True] * 30
    assert [hit.labels for hit in bounded] == [hit.labels for hit in whole[:10]] + [{}] * 30
    assert sum(" labels " in statement for statement in statements) == 2
    least = searcher.by_examples([], Request(k=40, label_bytes=0), Stopwatch(), vectors=np.ones(6)).results
    assert [hit.labels_left_out for hit in least] == [False] * 5 + [True] * 35
    every = searcher.by_examples([], Request(k=40, label_bytes=10**6), Stopwatch(), vectors=np.ones(6))
    assert every.results == whole
