"""A database that was taken back to an earlier state, and changed again from there."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from sqlalchemy import text

from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.postgresql import postgresql_schema
from cbir.store.postgresql.postgresql_address import files_folder
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import entry

pytestmark = pytest.mark.slow
NAMES = [table.name for table in postgresql_schema.tables.sorted_tables]


@pytest.fixture
def collection(address: str) -> Iterator[Collection]:
    with Collection.create(files_folder(address), profiles.get("tamura")) as created:
        yield created


def save(collection: Collection) -> Callable[[], None]:
    """Return a function that takes the database back to its present state."""
    database = collection.postgresql()
    assert database

    def restore() -> None:
        with database.engine.begin() as connection:
            connection.execute(text(f"TRUNCATE {', '.join(NAMES)}"))
            for name in NAMES:
                connection.execute(text(f"INSERT INTO {name} TABLE saved_{name}"))
            last = "SELECT setval(pg_get_serial_sequence('changes', 'change'), max(change)) FROM changes"
            connection.execute(text(last))

    with database.engine.begin() as connection:
        for name in NAMES:
            connection.execute(text(f"CREATE TABLE saved_{name} AS TABLE {name}"))
    return restore


def add(collection: Collection, start: int, stop: int) -> None:
    with collection.writer() as writer:
        writer.add([entry(number) for number in range(start, stop)])


def shown(collection: Collection) -> dict[int, list[float]]:
    view = collection.view()
    values = np.concatenate(view.gallery.blocks)
    rows = range(len(view.gallery)) if view.rows is None else view.rows.tolist()
    return {int(view.gallery.ids[row]): values[row].tolist() for row in rows}


def test_a_snapshot_of_a_later_state_is_not_used(collection: Collection) -> None:
    with collection.writer() as writer:
        writer.add([entry(number) for number in range(20)])
        writer.finish()
    restore = save(collection)
    add(collection, 20, 23)
    with collection.writer() as writer:
        writer.snapshot()
    generation = collection.generation()
    restore()
    add(collection, 30, 33)  # the same numbers again
    while collection.generation() < generation:
        with collection.writer() as writer:
            writer.set_auto("none")
    with Collection(collection.folder) as opened:
        assert opened.view().snapshot is None
        assert opened.snapshot_is_due()
        assert opened.build_due_snapshot()
        assert opened.view().snapshot is not None
        assert verify_collection(opened) == []
        statistics = opened.view().statistics
        for number, content in opened.content_hashes().items():
            raw = opened.vector(content)
            np.testing.assert_allclose(shown(opened)[number], statistics.normalise(raw), atol=1e-5)


def test_a_view_in_memory_of_a_later_state_is_not_used(collection: Collection) -> None:
    with collection.writer() as writer:
        writer.add([entry(number) for number in range(20)])
        writer.finish()
    restore = save(collection)
    add(collection, 20, 23)
    before = collection.view()
    restore()
    add(collection, 30, 33)
    assert collection.generation() == before.generation
    with Collection(collection.folder) as opened:
        assert shown(collection) == shown(opened)
    assert collection.view().snapshot is before.snapshot  # of the state that both have in common


def test_a_snapshot_is_used_after_the_history_was_pruned(
    collection: Collection, elsewhere: Collection
) -> None:
    with collection.writer() as writer:
        writer.add([entry(number) for number in range(20)])
        writer.finish()
        assert elsewhere.build_due_snapshot()
        writer.compact(history_days=0)
    with Collection(elsewhere.folder) as opened:
        assert opened.view().snapshot is not None
