"""Rows found by many values at once."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert

from cbir.store import Collection
from cbir.store.base.schema import forgotten
from cbir.store.records.dicom_instances import known_instances
from cbir.store.records.image_rows import rows_matching
from tests.cbir.store.conftest import entry

TEXTS = st.sets(st.text(st.characters(codec="utf-8"), max_size=8), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(kept=TEXTS, asked=TEXTS, both=TEXTS)
def test_matching_finds_what_comparing_finds(collection: Collection, kept, asked, both) -> None:
    column = forgotten.c.content_hash
    with collection._engine.begin() as connection:
        connection.execute(delete(forgotten))
        rows = [{"content_hash": text} for text in kept | both]
        if rows:
            connection.execute(insert(forgotten), rows)
        found = [row[0] for row in rows_matching(connection, [column], column, asked | both)]
    assert sorted(found) == sorted(text for text in (kept | both) & (asked | both) if "\0" not in text)


def test_many_values(collection: Collection) -> None:
    with collection._engine.begin() as connection:
        connection.execute(insert(forgotten), [{"content_hash": str(number)} for number in range(50_000)])
        column = forgotten.c.content_hash
        assert len(rows_matching(connection, [column], column, map(str, range(25_000, 90_000)))) == 25_000


def test_an_instance_that_only_begins_like_one_is_not_known(collection: Collection) -> None:
    record, vector = entry(1)
    with collection.writer() as writer:
        writer.add([(replace(record, instance="1.2.3"), vector)])
    with collection._engine.connect() as connection:
        assert known_instances(connection, ["1.2.3", "", "9"]) == {"1.2.3"}
        assert known_instances(connection, ["1.2.3\0x", "1.2", "1.2.3 "]) == set()
        assert known_instances(connection, []) == set()
