"""Tables of a collection in PostgreSQL, without what PostgreSQL does itself, and the function `as_number`."""

import sys
import unicodedata
from functools import cache

from sqlalchemy import Column, Index, MetaData, Table, Text, Uuid, func

from cbir.store.base import schema
from cbir.store.base.statements import WHOLE_NUMBER, value_beginning

DIGITS = "[0-9]+(_[0-9]+)*"

FORM = rf"^[+-]?({DIGITS}\.?({DIGITS})?|\.{DIGITS})([eE][+-]?{DIGITS})?$"

# Halfway between the largest number and the next, and between 0 and the smallest: what is beyond is rounded to
# infinity, or to 0.
TOO_LARGE = f"{2**1024 - 2**970}"

NO_SPACES = "\x1c\x1d\x1e\x1f"  # for `float`

EXPONENTS = 400  # beyond these the value is out of range, whatever its digits


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


# PostgreSQL has a log of changes, and checksums of pages, of its own.
LEFT_OUT = (schema.change_log, schema.row_totals)

HEAD = "0001"  # revision of these tables, in the folder `migrations`

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
