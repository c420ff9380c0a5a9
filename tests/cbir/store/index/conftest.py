"""Each kind of vector index, empty, beside the tables of a collection."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base import schema
from cbir.store.index.faiss_index import HNSW, FaissIndex, inverted_lists
from cbir.store.postgresql.postgresql_address import files_folder
from cbir.store.postgresql.postgresql_schema import number_function
from tests import milvus_server, postgresql_server
from tests.cbir.store.index.followed import Followed
from tests.cbir.store.index.subjects import DIMENSIONS, Subject, matching_numbers

KINDS = (
    "hnsw",
    "ivf",
    pytest.param("pgvector", marks=pytest.mark.slow),
    pytest.param("milvus", marks=pytest.mark.slow),
)

LOCAL_KINDS = {"hnsw": HNSW, "ivf": inverted_lists(probes=24)}


@pytest.fixture(scope="session")
def vector_server() -> Iterator[postgresql_server.PostgresqlServer]:
    """A PostgreSQL server with pgvector."""
    if reason := postgresql_server.missing_reason():
        pytest.skip(reason)
    server = postgresql_server.PostgresqlServer()
    try:
        engine = create_engine(server.url)
        with engine.begin() as connection:
            connection.execute(text("CREATE EXTENSION vector"))
        engine.dispose()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="package")
def milvus() -> Iterator[milvus_server.MilvusServer]:
    """A Milvus server."""
    if reason := milvus_server.missing_reason():
        pytest.skip(reason)
    server = milvus_server.MilvusServer()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def postgresql_tables(vector_server: postgresql_server.PostgresqlServer) -> Iterator[Engine]:
    name = f"test_{secrets.token_hex(8)}"
    options = {"options": f"-c search_path={name},public"}
    engine = create_engine(vector_server.url, connect_args=options, pool_pre_ping=True)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
        schema.tables.create_all(connection)
        connection.exec_driver_sql(number_function().replace("%", "%%"))
    yield engine
    engine.dispose()


@pytest.fixture
def sqlite_tables(tmp_path: Path) -> Iterator[Engine]:
    (tmp_path / schema.DATABASE).touch()
    engine = schema.connect(tmp_path)
    schema.tables.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture(params=KINDS)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    """An index of each kind, which is dropped at the end."""
    made = _make_subject(request, tmp_path)
    yield made
    made.index.drop()


def _make_subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    if request.param == "pgvector":
        from cbir.store.index.pgvector_index import PgvectorIndex

        tables = request.getfixturevalue("postgresql_tables")
        return Subject(tables, lambda: PgvectorIndex(tables, "cbir_0_1", DIMENSIONS))
    tables = request.getfixturevalue("sqlite_tables")
    if request.param == "milvus":
        from cbir.store.index.milvus_collection import MilvusConnection
        from cbir.store.index.milvus_index import MilvusIndex

        connection = MilvusConnection(request.getfixturevalue("milvus").address)
        name = f"cbir_{secrets.token_hex(8)}_1"
        return Subject(tables, lambda: MilvusIndex(connection, name, DIMENSIONS))
    folder = tmp_path / "indexes"
    kind = LOCAL_KINDS[request.param]
    return Subject(
        tables,
        lambda: FaissIndex(
            folder, "cbir_0_1", DIMENSIONS, lambda scope: matching_numbers(tables, scope), kind
        ),
    )


@pytest.fixture
def hnsw(tmp_path: Path) -> Iterator[Followed]:
    """An empty collection in SQLite, with an index in files."""
    with Collection.create(tmp_path / "collection", profiles.get("tamura")) as collection:
        yield Followed(collection, Settings(index="hnsw"))


@pytest.fixture(params=KINDS)
def followed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Followed]:
    """An empty collection, with each kind of index."""
    if request.param in LOCAL_KINDS:
        with Collection.create(tmp_path / "collection", profiles.get("tamura")) as collection:
            yield Followed(collection, Settings(index=request.param))
        return
    if request.param == "pgvector":
        server = request.getfixturevalue("vector_server")
        address = server.new_address()
        with Collection.create(files_folder(address), profiles.get("tamura")) as collection:
            yield Followed(collection, Settings(index="pgvector"))
        server.drop_schemas([address])
        return
    with Collection.create(tmp_path / "collection", profiles.get("tamura")) as collection:
        settings = Settings(index=request.getfixturevalue("milvus").address)
        yield Followed(collection, settings)
        Followed(collection, settings).index.follower.drop()
