"""The function `as_number` of PostgreSQL against the one of Python."""

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cbir.store.base.reserved_labels import as_number
from cbir.store.postgresql.postgresql_schema import number_function
from tests.postgresql_server import USER, PostgresqlServer

pytestmark = pytest.mark.slow
PARTS = ["0", "1", "17", "_", ".", "e", "E", "+", "-", " ", "\t", "inf", "nan", "x", "٣", "𝟗", "308", "-324"]
TEXTS = (
    st.text(st.characters(codec="utf-8"), max_size=8).filter(lambda text: "\0" not in text)
    | st.lists(st.sampled_from(PARTS), max_size=8).map("".join)
    | st.floats().map(repr)
    | st.builds("{}e{}".format, st.decimals(-10, 10, places=20), st.integers(-420, 420))
)


@pytest.fixture(scope="module")
def connection(postgresql: PostgresqlServer) -> Iterator[psycopg.Connection[tuple[float | None]]]:
    with psycopg.connect(host=str(postgresql.folder), user=USER, dbname=USER) as opened:
        opened.execute("CREATE SCHEMA numbers")
        opened.execute("SET search_path = numbers")
        opened.execute(number_function())
        yield opened
        opened.rollback()


def number_of(connection: psycopg.Connection[tuple[float | None]], text: str) -> float | None:
    row = connection.execute("SELECT as_number(%s)", (text,)).fetchone()
    assert row
    return row[0]


LARGEST = 2**1024 - 2**970  # rounded to infinity, and not what is below
WRITTEN = [
    *["", " ", "1", " 1.5\n", "\u20031\u2003", "1_000", "1__0", "_1", "1_", "1_.5", "1._5", ".5", "5.", "."],
    *["e5", "1e5", "1e+5_0", "1e", "+-1", "-0", "inf", "-Infinity", "nan", "0x10", "1,5", "1e5.5", "1 2"],
    *[
        "1e308",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "1e309",
        "1e400",
    ],
    *[str(LARGEST), str(LARGEST - 1), "-1e400", "1e99999999999999999999", "1e-99999999999999999999"],
    *["0e99999999999999999999", "5e-324", "4.9e-324", "2.4703282292062328e-324", "2.4703282292062327e-324"],
    *["1e-323", "-1e-400", "0.0000000000000000000000001", "1" * 400, "0" * 400 + "1", "0." + "0" * 400 + "1"],
    *["0." + "0" * 400 + "1e401", "٣٫٥", "٣.٥", "𝟏𝟐", "\x1c7\x1f", "\x857", "\u180e7", "\u200b7"],
]


@pytest.mark.parametrize("text", WRITTEN)
def test_the_same_number_or_none(connection: psycopg.Connection[tuple[float | None]], text: str) -> None:
    assert number_of(connection, text) == as_number(text)


@settings(max_examples=400)
@given(text=TEXTS)
@example(text="1e-320")
def test_any_text(connection: psycopg.Connection[tuple[float | None]], text: str) -> None:
    assert number_of(connection, text) == as_number(text)
