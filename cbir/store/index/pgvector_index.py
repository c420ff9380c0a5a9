"""Vector index of the extension pgvector: a table beside those of the collection, which filters are joined with."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, Column, Connection, Engine, MetaData, Table, cast, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import UserDefinedType

from cbir.errors import DatabaseUnavailable, IndexUnavailable, InvalidInput
from cbir.gallery.vector_blocks import Floats
from cbir.store.base.schema import images
from cbir.store.index.port import IndexedImage, IndexPosition, IndexScope, Neighbours, Numbers
from cbir.store.views.index_feed import scope_conditions

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


BEGIN = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # signature, flags, length of an extension

END = b"\xff\xff"


def row_type(dimensions: int) -> np.dtype[np.void]:
    """Return the layout of a row with the columns `number` and `vector`."""
    return np.dtype(
        [
            ("columns", ">i2"),
            ("number_bytes", ">i4"),
            ("number", ">i8"),
            ("vector_bytes", ">i4"),
            ("dimensions", ">i2"),
            ("unused", ">i2"),
            ("values", ">f4", (dimensions,)),
        ]
    )


def encode_rows(numbers: Numbers, vectors: Floats) -> bytes:
    """Return what COPY reads for images with these numbers (n,) and vectors (n, d)."""
    dimensions = vectors.shape[1]
    rows = np.zeros(len(numbers), row_type(dimensions))
    rows["columns"], rows["number_bytes"], rows["vector_bytes"] = 2, 8, 4 + 4 * dimensions
    rows["number"], rows["dimensions"], rows["values"] = numbers, dimensions, vectors
    return BEGIN + rows.tobytes() + END


def decode_rows(content: bytes, dimensions: int) -> tuple[Numbers, Floats]:
    """Return numbers (n,) and vectors (n, d) from what COPY wrote."""
    rows = np.frombuffer(content[len(BEGIN) : -len(END)], row_type(dimensions))
    return rows["number"].astype(np.int64), rows["values"].astype(np.float32)


LINKS = 16  # of an image in the graph, and twice as many on the lowest level (m)

BUILD_WIDTH = 128  # images that building compares at a time (ef_construction)

SEARCH_WIDTH = 200  # the same of a search (ef_search), at least; pgvector allows 1000

SCANNED = 100_000  # images that a search passes before it compares all that match instead

BUILD_BYTES = 2 << 30  # largest memory that building asks the server for


class PgvectorIndex:
    """A table of full vectors, with a graph of half-precision ones, which takes half the space.

    The table's comment holds the position. What filters compare are the collection's own tables. Thread-safe.
    """

    serves_vectors = True

    def __init__(self, engine: Engine, edition: str, dimensions: int) -> None:
        """Open the table, or create it.

        Parameters
        ----------
        engine : Engine
            Of the collection's database; its search path begins with the collection's schema.
        edition : str
            Name of the table.
        dimensions : int
            Length of the vectors.

        Raises
        ------
        IndexUnavailable
            If the database does not answer.
        InvalidInput
            If it lacks the extension.
        """
        self._engine, self._edition, self._dimensions = engine, edition, dimensions
        self._vector, self._half = PgVector("vector", dimensions), PgVector("halfvec", dimensions)
        self._table = Table(
            edition,
            MetaData(),
            Column("number", BigInteger, primary_key=True, autoincrement=False),
            Column("vector", self._vector, nullable=False),
        )
        with self._transaction() as connection:
            require_pgvector(connection)
            if connection.scalar(select(func.to_regclass(edition))) is None:
                self._table.create(connection)

    def nearest(self, queries: Floats, k: int, scope: IndexScope) -> list[Neighbours]:
        """Return up to k images of `scope` for each of the `queries` (q, d); all that match where fewer do."""
        conditions = scope_conditions(**vars(scope))
        with self._transaction() as connection:
            _configure(
                connection,
                {
                    "hnsw.ef_search": min(max(SEARCH_WIDTH, k), 1000),
                    "hnsw.iterative_scan": "strict_order",
                    "hnsw.max_scan_tuples": max(SCANNED, 10 * k),
                    "hnsw.scan_mem_multiplier": 8,
                    "plan_cache_mode": "force_custom_plan",  # the best plan depends on the filter
                    "jit": "off",
                },
            )
            results = [self._search(connection, query, k, conditions) for query in queries]
            if any(len(neighbours.numbers) < k for neighbours in results):
                _configure(connection, {"enable_indexscan": "off"})  # leaves the graph out
                results = [
                    self._search(connection, query, k, conditions)
                    if len(neighbours.numbers) < k
                    else neighbours
                    for query, neighbours in zip(queries, results, strict=True)
                ]
        return results

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return the numbers that the index has of `numbers`, ascending, and their vectors (n, d)."""
        rows = f"SELECT number, vector FROM {self._edition} WHERE number = ANY(%s) ORDER BY number"
        query, parameters = f"COPY ({rows}) TO STDOUT (FORMAT BINARY)", (numbers.tolist(),)
        with self._transaction() as connection, _cursor(connection).copy(query, parameters) as copy:
            content = b"".join(copy)
        return decode_rows(content, self._dimensions)

    def put(self, images: Sequence[IndexedImage], vectors: Floats) -> None:
        """Add images with their vectors (n, d), or replace them."""
        if not images:
            return
        numbers = np.array([image.number for image in images], np.int64)
        with self._transaction() as connection:
            self._delete(connection, numbers)
            target = f"COPY {self._edition} (number, vector) FROM STDIN (FORMAT BINARY)"
            with _cursor(connection).copy(target) as copy:
                copy.write(encode_rows(numbers, vectors))

    def delete(self, numbers: Numbers) -> None:
        """Delete images; unknown numbers are ignored."""
        with self._transaction() as connection:
            self._delete(connection, numbers)

    def position(self) -> IndexPosition | None:
        """Return how far it has followed; None before the first fill has ended."""
        with self._transaction() as connection:
            stored = connection.scalar(select(func.obj_description(func.to_regclass(self._edition))))
        return IndexPosition(*json.loads(stored)) if stored else None

    def set_position(self, position: IndexPosition) -> None:
        """Store how far it has followed."""
        with self._transaction() as connection:
            quoted = json.dumps(position).replace("'", "''")
            connection.exec_driver_sql(f"COMMENT ON TABLE {self._edition} IS '{quoted}'")

    def finish(self) -> None:
        """Build the graph, in memory as far as BUILD_BYTES suffice."""
        needed = len(self) * (2 * self._dimensions + 24 * LINKS + 100)
        with self._transaction() as connection:
            configured = connection.scalar(
                text("SELECT pg_size_bytes(current_setting('maintenance_work_mem'))")
            )
            kilobytes = max(configured or 0, min(needed, BUILD_BYTES)) // 1024
            _configure(connection, {"maintenance_work_mem": kilobytes})
            connection.execute(
                text(
                    f"CREATE INDEX IF NOT EXISTS {self._edition}_graph ON {self._edition} "
                    f"USING hnsw ((vector::halfvec({self._dimensions})) halfvec_l2_ops) "
                    f"WITH (m = {LINKS}, ef_construction = {BUILD_WIDTH})"
                )
            )
            connection.execute(text(f"ANALYZE {self._edition}"))

    def __len__(self) -> int:
        with self._transaction() as connection:
            return connection.scalar(select(func.count()).select_from(self._table)) or 0

    def drop(self) -> None:
        """Delete the table."""
        with self._transaction() as connection:
            self._table.drop(connection, checkfirst=True)

    def close(self) -> None:
        """Do nothing: the connections are the collection's."""

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        import psycopg

        try:
            with self._engine.begin() as connection:
                yield connection
        except (DatabaseUnavailable, DBAPIError, psycopg.Error) as error:
            reason = str(getattr(error, "orig", error)).strip().splitlines() or ["no reason given"]
            raise IndexUnavailable(f"the index in PostgreSQL cannot be used: {reason[0]}") from error

    def _search(self, connection: Connection, query: Floats, k: int, conditions: Sequence[Any]) -> Neighbours:
        vector, values = self._table.c.vector, f"[{','.join(map(str, query.tolist()))}]"
        near = cast(vector, self._half).op("<->")(cast(values, self._half))
        exact = vector.op("<->")(cast(values, self._vector))
        statement = select(self._table.c.number, exact).order_by(near).limit(k)
        if conditions:
            statement = statement.join(images, images.c.number == self._table.c.number).where(*conditions)
        rows = np.array(connection.execute(statement).all(), np.float64).reshape(-1, 2)
        rows = rows[np.argsort(rows[:, 1], kind="stable")]
        return Neighbours(rows[:, 0].astype(np.int64), rows[:, 1].astype(np.float32))

    def _delete(self, connection: Connection, numbers: Numbers) -> None:
        connection.execute(
            text(f"DELETE FROM {self._edition} WHERE number = ANY(:numbers)"), {"numbers": numbers.tolist()}
        )


def _configure(connection: Connection, values: dict[str, Any]) -> None:
    """Set parameters of the server until the transaction ends."""
    calls = [func.set_config(name, str(value), True) for name, value in values.items()]
    connection.execute(select(*calls))


def _cursor(connection: Connection) -> Any:
    """Return a cursor of psycopg in the connection's transaction."""
    return connection.connection.driver_connection.cursor()  # type: ignore[union-attr]
