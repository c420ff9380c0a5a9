"""Tables of a collection in PostgreSQL, without what PostgreSQL does itself, and their migrations with Alembic."""

import sys
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Index, MetaData, Table, Text, Uuid, func, text

from cbir.errors import DatabaseUnavailable, InvalidInput
from cbir.store.base import schema
from cbir.store.base.statements import WHOLE_NUMBER, value_beginning
from cbir.store.postgresql.postgresql_database import PostgresqlDatabase
from cbir.system.remedies import install_command

DIGITS = "[0-9]+(_[0-9]+)*"
FORM = rf"^[+-]?({DIGITS}\.?({DIGITS})?|\.{DIGITS})([eE][+-]?{DIGITS})?$"
# Halfway between the largest number and the next, and between 0 and the smallest: what is beyond is rounded to
# infinity, or to 0.
TOO_LARGE = f"{2**1024 - 2**970}"
NO_SPACES = "\x1c\x1d\x1e\x1f"  # for `float`
EXPONENTS = 400  # beyond these the value is out of range, whatever its digits
# PostgreSQL has a log of changes, and checksums of pages, of its own.
LEFT_OUT = (schema.change_log, schema.row_totals)
HEAD = "0001"  # revision of these tables, in the folder `migrations`
FOLDER = Path(__file__).parent / "migrations"


@cache
def number_function() -> str:
    """Return the statement that creates the function in the current schema."""
    characters = list(map(chr, range(1, sys.maxunicode + 1)))
    foreign = "".join(digit for digit in characters if digit.isdecimal() and not digit.isascii())
    ascii_digits = "".join(str(unicodedata.decimal(digit)) for digit in foreign)
    spaces = "".join(space for space in characters if space.isspace() and space not in NO_SPACES)
    return f"""
CREATE FUNCTION as_number(given text) RETURNS double precision
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
DECLARE
    plain text := btrim(translate(given, U&'{_escaped(foreign)}', '{ascii_digits}'), U&'{_escaped(spaces)}');
    mantissa text;
    digits text;
    exponent numeric;
BEGIN
    IF plain !~ '{FORM}' THEN
        RETURN NULL;
    END IF;
    plain := lower(replace(plain, '_', ''));
    IF length(plain) < 20 AND position('e' IN plain) = 0 THEN
        RETURN plain::double precision;
    END IF;
    mantissa := ltrim(split_part(plain, 'e', 1), '+-');
    digits := ltrim(replace(mantissa, '.', ''), '0');
    IF digits = '' THEN
        RETURN 0;
    END IF;
    exponent := length(split_part(mantissa, '.', 1)) - length(replace(mantissa, '.', '')) + length(digits)
        + coalesce(nullif(split_part(plain, 'e', 2), '')::numeric, 0);
    IF exponent > {EXPONENTS} THEN
        RETURN NULL;
    ELSIF exponent < -{EXPONENTS} THEN
        RETURN 0;
    ELSIF abs(exponent) > 300 THEN
        IF abs(plain::numeric) >= {TOO_LARGE} THEN
            RETURN NULL;
        ELSIF abs(plain::numeric) * {2**1075}::numeric <= 1 THEN
            RETURN 0;
        END IF;
    END IF;
    RETURN plain::double precision;
END
$function$"""


def _escaped(characters: str) -> str:
    return "".join(f"\\+{ord(character):06X}" for character in characters)


tables = MetaData()


def _add_tables() -> None:
    for table in schema.tables.sorted_tables:
        if table in LEFT_OUT:
            continue
        copy = table.to_metadata(tables)
        for column in copy.c:
            if isinstance(column.type, Text):
                column.type = Text(collation="C")  # the order of the characters, as in SQLite
    by_name = {str(index.name): index for index in tables.tables["images"].indexes}
    by_name["ix_images_source"].dialect_options["postgresql"]["using"] = "hash"  # paths may be long
    labels = tables.tables["labels"]
    labels.indexes.clear()
    Index("ix_labels_beginning", labels.c.key, value_beginning(labels.c.value), labels.c.number)
    Index("ix_labels_number", labels.c.number, labels.c.key, unique=True)


_add_tables()

tombstones: Table = tables.tables["tombstones"]

# Of the change that deleted the image: an older snapshot still has its vector. Tombstones stay for ever.
tombstones.append_column(Column("generation", WHOLE_NUMBER, nullable=False, index=True))

# Random, so that the same number after a return to an earlier state is seen to be another change.
tables.tables["changes"].append_column(
    Column("token", Uuid(), nullable=False, server_default=func.gen_random_uuid())
)


def has_tables(connection: Connection, schema: str) -> bool:
    """Return whether `schema` has a collection. Raises DatabaseUnavailable if the user has no right to it."""
    names = ("images", "alembic_version")
    query = " AND ".join(f"to_regclass('{schema}.{name}') IS NOT NULL" for name in names)
    return connection.scalar(text(f"SELECT {query}")) or False


def create_tables(connection: Connection, schema: str) -> None:
    """Create tables in `schema`, which is created too unless it exists."""
    if connection.scalar(text(f"SELECT to_regnamespace('{schema}') IS NULL")):
        connection.execute(text(f'CREATE SCHEMA "{schema}"'))  # may be a word of SQL
    _upgrade(connection)


def run_migrations(database: PostgresqlDatabase) -> None:
    """Upgrade the tables in a transaction, if a version of cbir before this one made them.

    Raises InvalidInput if a newer version did, or if the user may not change the tables.
    """
    with database.connect_once() as connection:
        if _revision(connection) == HEAD:
            return
    try:
        with database.begin() as connection:
            if _revision(connection) != HEAD:  # unless another process was faster
                _upgrade(connection)
    except DatabaseUnavailable as error:
        if getattr(error.__cause__, "sqlstate", None) != "42501":
            raise
        raise InvalidInput(
            f"the tables of {database.name} are of an earlier version, and this user may not change them; open the "
            "collection once as their owner"
        ) from error


def _revision(connection: Connection) -> str | None:
    stored: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return stored


def _upgrade(connection: Connection) -> None:
    try:
        from alembic import command
        from alembic.util import CommandError
    except ImportError as error:
        raise InvalidInput(f"this needs alembic: {install_command('postgres')}") from error
    try:
        command.upgrade(alembic_config(connection), "head")
    except CommandError as error:  # it knows no such revision
        raise InvalidInput("a newer version of cbir made this collection: upgrade this one") from error


def alembic_config(connection: Connection) -> Any:
    """Return Alembic's configuration for the tables that a connection sees."""
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
