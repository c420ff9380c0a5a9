"""What a vector index says where something is missing or wrong; passwords stay out of it."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine

from cbir.errors import IndexUnavailable, InvalidInput
from cbir.store.index.milvus_collection import MilvusConnection
from cbir.store.index.pgvector_index import decode_rows, encode_rows
from tests.cbir.store.index.subjects import make_vectors
from tests.postgresql_server import PostgresqlServer, missing_reason

SECRET = "s3cret"


def test_missing_pymilvus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(InvalidInput, match=r"needs pymilvus: pip install '\.\[milvus\]'"):
        MilvusConnection("milvus://localhost:19530")


@pytest.mark.parametrize(
    ("address", "secret", "expected"),
    [
        ("milvus://h:1", None, ("http://h:1", "", "")),
        ("milvus://h:1", "user:word", ("http://h:1", "user:word", "")),
        ("milvus://me@h:1/archive", SECRET, ("http://h:1", f"me:{SECRET}", "archive")),
        ("milvus://a%40b@h:1/x?tls=true", SECRET, ("https://h:1", f"a@b:{SECRET}", "x")),
        ("milvus://[::1]:1?tls=true", None, ("https://[::1]:1", "", "")),
    ],
)
def test_address(address: str, secret: str | None, expected: tuple[str, ...]) -> None:
    connection = MilvusConnection(address, secret)
    options = connection._options
    assert (options["uri"], options["token"], options["db_name"]) == expected
    assert SECRET not in repr(connection)


def test_no_server_listens(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("cbir.store.index.milvus_collection.SECONDS", 0.3)
    connection = MilvusConnection("milvus://me@127.0.0.1:1/x", SECRET)
    with pytest.raises(
        IndexUnavailable, match=r"the Milvus server 127\.0\.0\.1:1 cannot be used: "
    ) as raised:
        connection.call("list_collections", timeout=0.3)
    assert SECRET not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert SECRET not in caplog.text


@pytest.mark.slow
def test_database_without_the_extension(tmp_path: Path) -> None:
    from cbir.store.index.pgvector_index import PgvectorIndex

    if reason := missing_reason():
        pytest.skip(reason)
    server = PostgresqlServer()
    try:
        engine = create_engine(server.url)
        with pytest.raises(InvalidInput, match="runs CREATE EXTENSION vector"):
            PgvectorIndex(engine, "cbir_0_1", 3)
        engine.dispose()
    finally:
        server.stop()


@pytest.mark.parametrize("count", [0, 1, 7])
def test_rows_of_copy(count: int) -> None:
    numbers, vectors = np.arange(count, dtype=np.int64) * 10**10, make_vectors(count)
    decoded = decode_rows(encode_rows(numbers, vectors), vectors.shape[1])
    np.testing.assert_array_equal(decoded[0], numbers)
    np.testing.assert_array_equal(decoded[1], vectors)
