"""Checksums of stored rows, which distinguish damage of a disk from data."""

import struct
import zlib
from collections.abc import Container, Mapping
from typing import Any

from sqlalchemy import JSON, Column, Float, LargeBinary, String, Table

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
