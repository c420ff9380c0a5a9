"""Each kind of vector index, empty, beside the tables of a collection."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from cbir.store import schema
from cbir.vector_index.faiss_index import FaissIndex
from tests.cbir.vector_index.subjects import DIMENSIONS, Subject, matching_numbers


@pytest.fixture
def sqlite_tables(tmp_path: Path) -> Iterator[Engine]:
    engine = schema.connect(tmp_path)
    schema.tables.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def subject(tmp_path: Path, sqlite_tables: Engine) -> Subject:
    folder = tmp_path / "indexes"
    return Subject(
        sqlite_tables,
        lambda: FaissIndex(
            folder, "cbir_1", DIMENSIONS, lambda scope: matching_numbers(sqlite_tables, scope)
        ),
    )
