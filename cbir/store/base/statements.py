"""Statements in the forms of SQLite and PostgreSQL, and checksums of rows, which reveal damage of a disk."""

import json
import struct
import zlib
from collections.abc import Container, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    CursorResult,
    Float,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    func,
    literal_column,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement, GenericFunction

# SQLite has one type of integers, of up to 64 bits, and numbers rows by INTEGER alone.
WHOLE_NUMBER = BigInteger().with_variant(Integer(), "sqlite")


def is_postgresql(connection: Connection) -> bool:
    """Return whether a connection is to PostgreSQL."""
    return connection.dialect.name == "postgresql"


class Statement:
    """A constant statement, run by the driver: SQLAlchemy takes several times as long to build one for every call.

    `?` stands for a parameter, `IN ?` for a list.
    """

    def __init__(self, text: str) -> None:
        self._sqlite = text.replace("IN ?", "IN (SELECT value FROM json_each(?))")
        text = text.replace(" AS BLOB", " AS BYTEA")
        self._postgresql = text.replace("IN ?", "= ANY(?)").replace("?", "%s")

    def run(self, connection: Connection, *parameters: Any) -> CursorResult[*tuple[Any, ...]]:
        """Run the statement."""
        if is_postgresql(connection):
            return connection.exec_driver_sql(self._postgresql, parameters)
        encoded = tuple(json.dumps(value) if isinstance(value, list) else value for value in parameters)
        return connection.exec_driver_sql(self._sqlite, encoded)

    def run_many(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run the statement once for each row of parameters."""
        text = self._postgresql if is_postgresql(connection) else self._sqlite
        connection.exec_driver_sql(text, rows)


def insert_missing(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert those `rows` whose key the `table` does not have yet, in the transaction of `connection`."""
    connection.execute(_insert(connection, table).on_conflict_do_nothing(), rows)


def insert_or_update(connection: Connection, table: Table, key: str, values: Mapping[str, Any]) -> None:
    """Insert a row into `table`, or give the row with the same `key` these `values`, by `connection`."""
    changed = {name: value for name, value in values.items() if name != key}
    statement = _insert(connection, table).values(values)
    connection.execute(statement.on_conflict_do_update(index_elements=[key], set_=changed))


def _insert(connection: Connection, table: Table) -> Any:
    if is_postgresql(connection):
        from sqlalchemy.dialects.postgresql import insert as insert_postgresql

        return insert_postgresql(table)
    from sqlalchemy.dialects.sqlite import insert as insert_sqlite

    return insert_sqlite(table)


def value_beginning(value: Any) -> Any:
    """Return the part of a label's value that PostgreSQL indexes: whole values may be too long for that."""
    return func.left(value, literal_column("300"))


class is_value(FunctionElement[bool]):  # noqa: N801 - as `joined_numbers`
    """Condition that the value of a label is one of the given ones."""

    type = Boolean()
    inherit_cache = True


@compiles(is_value, "sqlite")
def _value_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    value, *given = element.clauses
    return f"({compiler.process(value.in_(given), **options)})"


@compiles(is_value, "postgresql")
def _value_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    value, *given = element.clauses
    beginnings = [value_beginning(one) for one in given]
    both = value.in_(given) & value_beginning(value).in_(beginnings)
    return f"({compiler.process(both, **options)})"


class joined_numbers(GenericFunction[str]):  # noqa: N801 - the name of the function in SQL
    """All numbers of a column as a text, with commas between them; NULL if there are none."""

    type = Text()
    inherit_cache = True


class byte_length(FunctionElement[int]):  # noqa: N801 - as `joined_numbers`
    """Number of bytes of a text in UTF-8: `octet_length`, which SQLite has since 3.43 alone."""

    type = BigInteger()
    inherit_cache = True


class is_listed(FunctionElement[bool]):  # noqa: N801 - as `joined_numbers`
    """Condition that a number is in a JSON list: one parameter, however many there are."""

    type = Boolean()
    inherit_cache = True


def _compile_as(element: type, dialect: str, form: str) -> None:
    """Let a function be compiled as `form`, where {0} and {1} stand for its arguments."""

    @compiles(element, dialect)
    def _compiled(element: Any, compiler: Any, **options: Any) -> str:
        return form.format(*(compiler.process(clause, **options) for clause in element.clauses))


_compile_as(joined_numbers, "sqlite", "group_concat({0})")
_compile_as(joined_numbers, "postgresql", "string_agg(CAST({0} AS TEXT), ',')")
_compile_as(byte_length, "sqlite", "length(CAST({0} AS BLOB))")
_compile_as(byte_length, "postgresql", "octet_length({0})")
_compile_as(is_listed, "sqlite", "{0} IN (SELECT value FROM json_each({1}))")
_compile_as(
    is_listed,
    "postgresql",
    "{0} IN (SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST({1} AS JSON)) AS value)",
)

COLUMN = "checksum"

NULL = b"\1"


def row_checksum(*values: bytes) -> int:
    """Return the CRC-32 of a row's values, each cast to BLOB, NULL for none. Also an SQL function of this name."""
    return zlib.crc32(b"\0".join(values))


def float_bytes(number: float) -> bytes:
    """Return all bits of a number, which its text has not. Also an SQL function of this name."""
    return struct.pack("<d", number)


def values_checksum(*values: str | int | None) -> int:
    """Return the checksum of a row of texts and integers; None for NULL."""
    texts = ("\1" if value is None else str(value) for value in values)
    return zlib.crc32("\0".join(texts).encode())


def with_checksum(table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a row of `table`, texts and integers by column, with their checksum."""
    ordered = (values[column.name] for column in table.c if column.name != COLUMN)
    return {**values, COLUMN: values_checksum(*ordered)}


def vector_checksum(number: int, vector: bytes) -> int:
    """Return the checksum of the row of `vectors` of an image number."""
    return zlib.crc32(vector, zlib.crc32(b"%d\0" % number))  # as row_checksum, without a copy of the vector


def checksum_sql(table: Table, prefix: str = "", given: Container[str] = ()) -> str:
    """Return the SQL expression for the checksum of a row of `table`.

    Parameters
    ----------
    table : Table
    prefix : str
        Precedes the names of columns: ":" for named parameters, "other." for another table with these columns.
    given : container of str
        Columns whose values are named parameters.
    """
    values = [
        f"ifnull({_bytes_sql(column, ':' if column.name in given else prefix)}, x'{NULL.hex()}')"
        for column in table.c
        if column.name != COLUMN
    ]
    return f"row_checksum({', '.join(values)})"


def _bytes_sql(column: Column[Any], prefix: str) -> str:
    name = f"{prefix}{column.name}"
    content = f"CAST({name} AS BLOB)"
    if not isinstance(column.type, Float):
        return content
    return f"iif(typeof({name}) IN ({_type_names(column)}), float_bytes({name}), {content})"


def other_type_sql(table: Table) -> str:
    """Return the SQL condition that a value of a row has not the type of its column.

    SQLite stores the same bytes as text or as a blob, one bit apart, and their checksums are the same.
    """
    types = (f"typeof({column.name}) NOT IN ({_type_names(column)}, 'null')" for column in table.c)
    return f"({' OR '.join(types)})"


def _type_names(column: Column[Any]) -> str:
    if isinstance(column.type, LargeBinary):
        return "'blob'"
    if isinstance(column.type, Float):
        return "'real', 'integer'"
    return "'text'" if isinstance(column.type, String | JSON) else "'integer'"


def restored_types_sql(table: Table) -> list[str]:
    """Return SQL statements that store values as the type of their column again, but for numbers that are keys.

    A row that was written meanwhile, since its key could not be found, is replaced.
    """
    casts = {"'blob'": "BLOB", "'text'": "TEXT", "'integer'": "INTEGER"}
    return [
        f"UPDATE OR REPLACE {table.name} SET {column.name} = CAST({column.name} AS {casts.get(types, 'REAL')}) "
        f"WHERE typeof({column.name}) NOT IN ({types}, 'null')"
        for column in table.c
        if (types := _type_names(column)) in ("'text'", "'blob'") or not _is_key(column)
    ]


def _is_key(column: Column[Any]) -> bool:
    return column.primary_key or bool(column.foreign_keys)
