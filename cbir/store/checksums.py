"""Checksums of stored rows, which distinguish damage of a disk from data."""

import zlib

from sqlalchemy import Table

COLUMN = "checksum"


NULL = b"\1"


def row_checksum(*values: bytes) -> int:
    """Return the CRC-32 of a row's values, each cast to BLOB, NULL for none. Also an SQL function of this name."""
    return zlib.crc32(b"\0".join(values))


def vector_checksum(number: int, vector: bytes) -> int:
    """Return the checksum of the row of `vectors` of an image number."""
    return row_checksum(b"%d" % number, vector)


def checksum_sql(table: Table, prefix: str = "") -> str:
    """Return the SQL expression for the checksum of a row of `table`.

    `prefix` precedes the names of columns: ":" for named parameters, "other." for another table with these columns.
    """
    names = [column.name for column in table.c if column.name != COLUMN]
    values = (f"ifnull(CAST({prefix}{name} AS BLOB), x'{NULL.hex()}')" for name in names)
    return f"row_checksum({', '.join(values)})"
