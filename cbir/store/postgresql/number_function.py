"""The function `as_number` for PostgreSQL, with the results of `schema.as_number`."""

import sys
import unicodedata
from functools import cache

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
